// Package sessiondv1 has the stubs of the contract in proto/sessiond/v1. The script generate writes them; do not edit them.
package sessiondv1
