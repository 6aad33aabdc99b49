//go:build tools

// Package tools names the program that is built, so that go.mod keeps it.
package tools

import _ "connectrpc.com/conformance/cmd/connectconformance"
