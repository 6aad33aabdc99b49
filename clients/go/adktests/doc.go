// Package adktests runs the tests that the ADK publishes with its module on this service.
package adktests
