package transcript_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/transcript"
)

// Variables of child processes.
const (
	childHome  = "TRANSCRIPT_TEST_HOME"
	childFirst = "TRANSCRIPT_TEST_FIRST" // number that a writer begins with
)

var children = map[string]func() error{"writer": childWriter, "rival": childRival}

const childWrites = 100

// numbered is the n-th version of a transcript: all that matters follows from n, so that one that is not whole shows.
func numbered(n int) []pipeline.Message {
	size := n * 7919 % 10_000
	if n%5 == 0 {
		size = n * 104_729 % 1_000_000
	}
	return []pipeline.Message{
		user("question " + strconv.Itoa(n)),
		assistant(strings.Repeat(strconv.Itoa(n%10), size)),
		user("end " + strconv.Itoa(n)),
	}
}

// number is which version messages are; an error says what is wrong with them.
func number(messages []pipeline.Message) (int, error) {
	if len(messages) != 3 {
		return 0, fmt.Errorf("%d messages", len(messages))
	}
	n, err := strconv.Atoi(strings.TrimPrefix(messages[0].Text(), "question "))
	if err != nil {
		return 0, err
	}
	for i, want := range numbered(n) {
		if messages[i].Text() != want.Text() {
			return 0, fmt.Errorf("version %d: messages[%d] is not whole", n, i)
		}
	}
	return n, nil
}

// childWriter writes one version after the other and prints each number once it is acknowledged.
func childWriter() error {
	first, err := strconv.Atoi(os.Getenv(childFirst))
	if err != nil {
		return err
	}
	d := transcript.NewDisk(os.Getenv(childHome), quiet)
	for n := first; n < first+childWrites; n++ {
		if err := d.Replace(context.Background(), key, pipeline.Transcript{Messages: numbered(n), Mark: pipeline.MarkClient}); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
	return nil
}

func startChild(t *testing.T, role string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childRole+"="+role), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestKillWriter kills writers at random moments, 100 times or for as long as it may take: what was acknowledged last, or something
// newer, is there and whole.
func TestKillWriter(t *testing.T) {
	t.Parallel()
	const (
		rounds  = 100
		atLeast = 5
		lanes   = 2 // sessions of their own, in homes of their own
	)
	enough := time.Now().Add(12 * time.Second)
	var lane sync.WaitGroup
	for l := range lanes {
		home := t.TempDir()
		lane.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(l), 11))
			d := transcript.NewDisk(home, quiet)
			last, kills := 0, 0
			for round := 0; round < rounds/lanes && (round < atLeast || time.Now().Before(enough)); round++ {
				cmd, out := startChild(t, "writer", childHome+"="+home, childFirst+"="+strconv.Itoa(last+1))
				acknowledged := last
				read := func() bool {
					if !out.Scan() {
						return false
					}
					n, err := strconv.Atoi(out.Text())
					if err != nil {
						t.Errorf("the child says %q", out.Text())
					}
					acknowledged = n
					return true
				}
				for range rnd.IntN(4) {
					read()
				}
				<-time.After(time.Duration(rnd.IntN(20_000)) * time.Microsecond) // somewhere in the next write
				_ = cmd.Process.Kill()
				kills++
				for read() { // what it had said by then
				}
				_ = cmd.Wait()
				got, err := d.Load(context.Background(), key)
				if err == pipeline.ErrNoSession && acknowledged == 0 {
					continue
				}
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				n, err := number(got.Messages)
				if err != nil || n < acknowledged || n > acknowledged+1 || got.Mark != pipeline.MarkClient && n > 1 {
					t.Errorf("round %d: acknowledged %d, found %d with mark %q: %v", round, acknowledged, n, got.Mark, err)
				}
				last = n
			}
			t.Logf("killed %d times by version %d", kills, last)
			if last == 0 {
				t.Error("nothing was ever written")
			}
			left, err := filepath.Glob(filepath.Join(folder(home, key), ".*.tmp"))
			if err != nil {
				t.Error(err)
			}
			old := time.Now().Add(-time.Hour)
			for _, path := range left {
				if err := os.Chtimes(path, old, old); err != nil {
					t.Error(err)
				}
			}
			if err := d.Replace(context.Background(), key, pipeline.Transcript{Messages: numbered(last + 1)}); err != nil {
				t.Errorf("the next write: %v", err)
			}
			if still, err := filepath.Glob(filepath.Join(folder(home, key), ".*.tmp")); err != nil || len(still) > 0 {
				t.Errorf("%q stay, %v", still, err)
			}
		})
	}
	lane.Wait()
}

const rivalWrites = 100

var shared, own = pipeline.SessionKey{Workspace: "w", Session: "shared"}, "own-"

// childRival replaces one session that others replace as well, and one of its own.
func childRival() error {
	d := transcript.NewDisk(os.Getenv(childHome), quiet)
	for n := range rivalWrites {
		for _, k := range []pipeline.SessionKey{shared, {Workspace: "w", Session: own + os.Getenv(childFirst)}} {
			if err := d.Replace(context.Background(), k, pipeline.Transcript{Messages: numbered(n), Mark: pipeline.MarkRepaired}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestTwoProcesses: while two processes replace the same session, whoever looks finds each file whole.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	ended := make(chan error, 2)
	for i := range 2 {
		cmd, _ := startChild(t, "rival", childHome+"="+home, childFirst+"="+strconv.Itoa(i))
		go func() { ended <- cmd.Wait() }()
	}
	looks := 0
	for running := 2; running > 0; {
		select {
		case err := <-ended:
			if running--; err != nil {
				t.Errorf("a child: %v", err)
			}
		default:
		}
		got, err := d.Load(t.Context(), shared)
		if err == pipeline.ErrNoSession && looks == 0 {
			continue
		}
		if err == nil {
			_, err = number(got.Messages)
		}
		if err != nil || got.Mark != "" && got.Mark != pipeline.MarkRepaired {
			t.Fatalf("look %d: mark %q, %v", looks, got.Mark, err)
		}
		looks++
	}
	if looks == 0 {
		t.Error("never looked")
	}
	for _, session := range []string{"shared", own + "0", own + "1"} {
		got, err := d.Load(t.Context(), pipeline.SessionKey{Workspace: "w", Session: session})
		if err == nil {
			var n int
			if n, err = number(got.Messages); n != rivalWrites-1 {
				t.Errorf("%s: version %d", session, n)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", session, err)
		}
		dir := folder(home, pipeline.SessionKey{Workspace: "w", Session: session})
		for _, name := range []string{"transcript.jsonl.backup", "metadata.json.backup"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
}
