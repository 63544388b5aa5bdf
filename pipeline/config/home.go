package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Home is the folder of credentials and state, called H in the documents (rulings 6): $AMPLIFIER_AGENT_HOME, else
// ~/.amplifier-agent. It is absolute; nothing looks whether it exists.
func Home(env func(string) string) (string, error) {
	path := strings.TrimSpace(env("AMPLIFIER_AGENT_HOME"))
	if path == "" {
		path = "~/.amplifier-agent"
	}
	path, err := absolute(path, env)
	if err != nil {
		return "", fmt.Errorf("home folder: %w: set AMPLIFIER_AGENT_HOME to an absolute path", err)
	}
	return path, nil
}

// File expands and resolves the path of a host config, which must be that of a regular file (http-face.md, "Launch and lifecycle").
// No path is no file. Its errors name the file, say what to do and wrap an *Error.
func File(path string) (string, error) {
	if path = strings.TrimSpace(path); path == "" {
		return "", nil
	}
	resolved, err := absolute(path, os.Getenv)
	if err != nil {
		return "", fmt.Errorf("config %s: %w", path, unreadable(path, err))
	}
	info, err := os.Stat(resolved)
	switch {
	case err != nil:
		err = unreadable(resolved, err)
	case info.IsDir():
		err = &Error{Code: CodeUnreadable, Message: "it is a folder: name the file in it"}
	case !info.Mode().IsRegular():
		err = &Error{Code: CodeUnreadable, Message: "it is not a regular file: write the config to one"}
	default:
		return resolved, nil
	}
	return "", fmt.Errorf("config %s: %w", resolved, err)
}

// unreadable says what is wrong with a file and what to do.
func unreadable(path string, err error) *Error {
	e := &Error{Code: CodeUnreadable, Message: err.Error()}
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Path == path {
		e.Message = p.Err.Error() // the path is named already
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Message += ": create it, name another one, or name none to run with the defaults"
	case errors.Is(err, fs.ErrPermission):
		e.Message += ": let this user read it and enter the folders above it"
	}
	return e
}

// absolute makes a path absolute, from the working directory if it is relative. A leading ~ or ~/ is the user's home folder.
func absolute(path string, env func(string) string) (string, error) {
	if tilde(path) {
		home := env("HOME")
		if home == "" {
			var err error
			if home, err = os.UserHomeDir(); err != nil {
				return "", err
			}
		}
		path = filepath.Join(home, path[1:])
	}
	return filepath.Abs(path)
}

func tilde(path string) bool {
	return path == "~" || strings.HasPrefix(path, "~/") || strings.HasPrefix(path, "~"+string(filepath.Separator))
}
