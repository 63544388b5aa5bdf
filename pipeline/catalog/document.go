package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file. Those of the front matter are there because the time that the YAML parser takes can grow with the square of
// what it is given.
const (
	maxFileBytes   = 1 << 20
	maxFrontBytes  = 16 << 10
	maxFrontTokens = 4096
	maxErrorRunes  = 300 // of what the YAML parser says
)

const (
	fence         = "---"
	byteOrderMark = "\uFEFF"
	replacement   = "\uFFFD" // of bytes that are no UTF-8
)

// document is a Markdown file that begins with front matter.
type document struct {
	front fields
	body  string // trimmed, lines end in \n, valid UTF-8
}

// errNoFront is of a file that does not begin as it should, such as one of plain text.
var errNoFront = errors.New("no front matter: the first line must be ---")

// readDocument reads the file at source, which is regular or built in. Begin is how a file of its kind may begin, for those who
// have not heard of front matter.
func readDocument(source, begin string) (document, error) {
	f, err := open(source)
	if err != nil {
		return document{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return document{}, err
	}
	if len(text) > maxFileBytes {
		return document{}, fmt.Errorf("the file has more than %d bytes", maxFileBytes)
	}
	doc, err := parseDocument(text)
	if errors.Is(err, errNoFront) {
		err = fmt.Errorf("%w, as in the lines %s", err, begin)
	}
	return doc, err
}

func open(source string) (fs.File, error) {
	if name, ok := strings.CutPrefix(source, builtinPrefix); ok {
		return builtins.Open(path.Join("builtin", name))
	}
	return os.Open(source)
}

func parseDocument(text []byte) (document, error) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	for _, end := range []string{"\r\n", "\r"} { // of lines, as other systems and other times write them
		text = bytes.ReplaceAll(text, []byte(end), []byte("\n"))
	}
	front, body, err := split(strings.ToValidUTF8(string(text), replacement))
	if err != nil {
		return document{}, err
	}
	f, err := parseFront(front)
	if err != nil {
		return document{}, err
	}
	return document{f, strings.TrimSpace(body)}, nil
}

// split returns what is between the first line, which must be a fence, and the next fence; and what follows. An empty line stands
// for the first fence, so that the parser counts lines as the file does.
func split(text string) (front, body string, err error) {
	first, text, _ := strings.Cut(text, "\n")
	if !isFence(first) {
		return "", "", errNoFront
	}
	for at := 0; at < len(text) && at <= maxFrontBytes; {
		line, rest, _ := strings.Cut(text[at:], "\n")
		if isFence(line) {
			return "\n" + text[:at], rest, nil
		}
		at = len(text) - len(rest)
	}
	return "", "", fmt.Errorf("front matter does not end: write a line --- below its keys, which may have %d bytes", maxFrontBytes)
}

func isFence(line string) bool { return strings.TrimRight(line, " \t") == fence }

// parseFront reads a mapping. Aliases are refused: they are what lets a few bytes stand for many. If the YAML parser panics over
// a file, that is the file's misfortune and not the server's.
func parseFront(front string) (f fields, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("front matter: the YAML parser gave up: %.*v", maxErrorRunes, r)
		}
	}()
	tokens := lexer.Tokenize(front)
	if len(tokens) > maxFrontTokens {
		return nil, fmt.Errorf("front matter has more than %d words and signs", maxFrontTokens)
	}
	for _, t := range tokens {
		if t.Type == token.AliasType {
			return nil, fmt.Errorf("front matter: line %d: aliases are not accepted: a value that begins with * needs quotes", t.Position.Line)
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, frontError(err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return fields{}, nil
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, &f); err != nil {
		return nil, frontError(err)
	}
	return f, nil
}

// frontError says in which line the fault is, and what to write where the parser's words do not tell. It leaves out the lines of
// the file that they quote.
func frontError(err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil {
		return fmt.Errorf("front matter: %.*s", maxErrorRunes, yaml.FormatError(err, false, false))
	}
	text, at := e.GetMessage(), e.GetToken().Position
	if _, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok {
		text = "it is no mapping: write lines such as 'description: What it is for'"
	} else if strings.HasPrefix(text, "mapping value is not allowed") {
		text += ": text with a colon in it needs quotes"
	}
	return fmt.Errorf("front matter: line %d, column %d: %.*s", at.Line, at.Column, maxErrorRunes, text)
}
