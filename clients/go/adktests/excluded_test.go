package adktests

// excluded are the tests that cannot pass, with the reason.
var excluded = map[string]string{}
