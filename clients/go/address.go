package sessiond

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort  = "50051"
	addressForms = "use HOST:PORT, unix:/PATH, http(s)://HOST:PORT, sessiond://HOST:PORT or sessiond:///PATH (a unix socket)"
)

// address is a gRPC target, whether it is reached with TLS, and the settings of the URI's query.
type address struct {
	target string
	tls    bool
	// timeout is 0 and stale "" if the address does not set them.
	timeout time.Duration
	stale   Staleness
}

// parseAddress parses `127.0.0.1:50051`, `unix:/run/sessiond.sock`, `http://HOST:PORT`, `https://HOST:PORT`, or either of
// the first two as a URI: `sessiond://127.0.0.1:50051?timeout=5&stale=error`.
func parseAddress(text string) (address, error) {
	text = strings.TrimSpace(text)
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if strings.Trim(path, "/") == "" {
			return address{}, fmt.Errorf("sessiond: address %q has no socket path; %s", text, addressForms)
		}
		return address{target: text}, nil
	}
	if !strings.Contains(text, "://") {
		target, err := hostAndPort(text, text)
		return address{target: target}, err
	}
	uri, err := url.Parse(text)
	if err != nil {
		return address{}, fmt.Errorf("sessiond: address %q is not a URI: %w", text, err)
	}
	return parseURI(uri, text)
}

func parseURI(uri *url.URL, text string) (address, error) {
	if uri.Scheme != "sessiond" && uri.Scheme != "http" && uri.Scheme != "https" {
		return address{}, fmt.Errorf("sessiond: address %q has the scheme %q; %s", text, uri.Scheme, addressForms)
	}
	if uri.User != nil || uri.Fragment != "" {
		return address{}, fmt.Errorf("sessiond: address %q has a user or a fragment; %s", text, addressForms)
	}
	result := address{tls: uri.Scheme == "https"}
	if err := result.readSettings(uri.RawQuery); err != nil {
		return address{}, err
	}
	if uri.Host == "" {
		if uri.Scheme != "sessiond" || strings.Trim(uri.Path, "/") == "" {
			return address{}, fmt.Errorf("sessiond: address %q has no host; %s", text, addressForms)
		}
		result.target = "unix:" + uri.Path
		return result, nil
	}
	if uri.Path != "" && uri.Path != "/" {
		return address{}, fmt.Errorf("sessiond: address %q has a path after its host; %s", text, addressForms)
	}
	var err error
	result.target, err = hostAndPort(uri.Host, text)
	return result, err
}

func (a *address) readSettings(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("sessiond: the query %q of the address is not valid: %w", query, err)
	}
	for name := range values {
		value := values.Get(name)
		switch name {
		case "timeout":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || !(seconds > 0 && seconds <= maxTimeout.Seconds()) {
				return fmt.Errorf("sessiond: timeout is %q in the address; it must be a positive number of seconds", value)
			}
			a.timeout = time.Duration(seconds * float64(time.Second))
		case "stale":
			a.stale = Staleness(value)
			if err := a.stale.validate(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("sessiond: unknown setting %q in the address; use timeout or stale", name)
		}
	}
	return nil
}

// hostAndPort returns text with a port. An IPv6 address needs brackets. whole appears in messages.
func hostAndPort(text, whole string) (string, error) {
	if !strings.Contains(text, ":") || strings.HasSuffix(text, "]") {
		text += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsAny(text, "/ \t\r\n@") {
		return "", fmt.Errorf("sessiond: %q is not an address; %s", whole, addressForms)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", fmt.Errorf("sessiond: %q has the port %q; %s", whole, port, addressForms)
	}
	return text, nil
}
