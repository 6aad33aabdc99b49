package dev.sessiond.adk;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** An authority that issues certificates of a test. */
final class Certificates {
  final Path ca;
  private final Path directory;

  /** A certificate and its key. */
  record Pair(Path certificate, Path key) {}

  Certificates(Path directory) throws Exception {
    this.directory = directory;
    this.ca = create("ca").certificate();
  }

  /** A certificate for this machine. */
  Pair issue(String name) throws Exception {
    return create(
        name,
        "-CA",
        ca.toString(),
        "-CAkey",
        directory.resolve("ca.key").toString(),
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext",
        "basicConstraints=CA:FALSE");
  }

  private Pair create(String name, String... more) throws Exception {
    Pair pair = new Pair(directory.resolve(name + ".pem"), directory.resolve(name + ".key"));
    String curve = "ec_paramgen_curve:prime256v1";
    List<String> command = new ArrayList<>(List.of("openssl", "req", "-x509", "-nodes"));
    command.addAll(List.of("-newkey", "ec", "-pkeyopt", curve, "-days", "2"));
    command.addAll(List.of("-subj", "/CN=" + name, "-keyout", pair.key().toString()));
    command.addAll(List.of("-out", pair.certificate().toString()));
    command.addAll(List.of(more));
    Process openssl = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(openssl.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (openssl.waitFor() != 0) {
      throw new IOException(output);
    }
    return pair;
  }
}
