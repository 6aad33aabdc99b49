// Package testserver starts real servers for tests and benchmarks.
package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTimeout is generous for busy machines.
const startTimeout = 5 * time.Minute

var listening = regexp.MustCompile(`listen(?:s|ing) on (\S+)`)

// Server is a running `sessiond serve`. It ends with the test.
type Server struct {
	// Address is what it listens on.
	Address string

	tb        testing.TB
	store     string
	more      []string
	directory string
	command   *exec.Cmd
	drained   chan struct{}
}

// Start starts a server on a free port of the loopback interface, and waits until it listens. The store is `memory:` or
// `sqlite:FILE`, relative to a folder of the server's own.
func Start(tb testing.TB, store string) *Server {
	return StartOn(tb, store, "127.0.0.1:0")
}

// StartOn is [Start] with an address to listen on, and further arguments.
func StartOn(tb testing.TB, store, listen string, more ...string) *Server {
	tb.Helper()
	server := &Server{tb: tb, store: store, more: more, directory: tb.TempDir()}
	server.start(listen)
	tb.Cleanup(server.Kill)
	return server
}

// StartAgain starts a server that has ended with the same address and store.
func (s *Server) StartAgain() {
	s.tb.Helper()
	s.start(s.Address)
}

// Kill kills the server, as a crash does, and waits for its end.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop stops the server gracefully and waits for its end.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) start(listen string) {
	s.tb.Helper()
	program, err := program()
	if err != nil {
		s.tb.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(s.directory, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.command = exec.Command(program, append([]string{"serve", "--http-listen", "off", "--listen", listen, "--store", s.store}, s.more...)...)
	s.command.Dir = s.directory
	s.command.Stderr = log
	// The environment may configure a sessiond of its own, which must not affect the tests.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SESSIOND_") {
			s.command.Env = append(s.command.Env, variable)
		}
	}
	output, err := s.command.StdoutPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.tb.Fatalf("start the server: %v", err)
	}
	s.awaitAddress(output)
}

func (s *Server) awaitAddress(output io.Reader) {
	s.tb.Helper()
	found := make(chan string, 1)
	s.drained = make(chan struct{})
	go func() {
		defer close(s.drained)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if match := listening.FindStringSubmatch(lines.Text()); match != nil {
				found <- match[1]
				break
			}
		}
		close(found)
		// The server must never block on a full pipe.
		_, _ = io.Copy(io.Discard, output)
	}()
	timeout := time.AfterFunc(startTimeout, func() { _ = s.command.Process.Kill() })
	defer timeout.Stop()
	address, ok := <-found
	if !ok {
		s.Kill()
		log, _ := os.ReadFile(filepath.Join(s.directory, "server.log"))
		s.tb.Fatalf("the server did not start: %s", log)
	}
	s.Address = address
}

func (s *Server) end(signal syscall.Signal) {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(signal)
	if s.drained != nil {
		<-s.drained
	}
	_ = s.command.Wait()
	s.command = nil
}

// program returns the server binary: SESSIOND_TEST_PROGRAM, or the newest build of cargo. No test is skipped without it.
func program() (string, error) {
	if named := os.Getenv("SESSIOND_TEST_PROGRAM"); named != "" {
		return filepath.Abs(named)
	}
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "../../../..")
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = filepath.Join(root, "target")
	}
	var newest string
	var built time.Time
	for _, kind := range []string{"release", "debug"} {
		path := filepath.Join(target, kind, "sessiond")
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if info.ModTime().After(built) {
			newest, built = path, info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("no sessiond in %s; run `cargo build`, or set SESSIOND_TEST_PROGRAM", target)
	}
	return newest, nil
}
