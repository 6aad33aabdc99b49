# shellcheck shell=bash
# Steps of a check: each runs under a headline and ends with its outcome and duration. The summary lists them with what the failed ones
# said, also after Ctrl-C. Sourced by tests/run.

tmp=$(mktemp -d) || exit 1
trap clean_up EXIT
trap interrupted INT TERM

# Folders to remove at the end.
leftovers=("$tmp")
# Processes that run beside a step, by name. Each leads a process group.
declare -A background=()

clean_up() {
  local leader
  for leader in "${background[@]}"; do
    kill -TERM -- "-$leader" && wait "$leader"
  done 2>/dev/null
  rm -rf "${leftovers[@]}"
}

# in_background NAME COMMAND...: starts COMMAND. A process group of its own makes it possible to end its children, too. Without one it
# would ignore Ctrl-C.
in_background() {
  local name=$1
  shift
  set -m
  "$@" &
  background[$name]=$!
  set +m
}

# Whether this is continuous integration.
is_ci() {
  [[ ${CI:-false} != false ]]
}

# note REASON: adds to what the summary says beside the outcome of the running step.
note() {
  [[ ! -s $tmp/reason ]] || printf ', ' >>"$tmp/reason"
  printf '%s' "$*" >>"$tmp/reason"
}

summary=()
complaints=()
passed=0
failed=0
# The step that runs, and when it began.
running=
started=0

# step NAME COMMAND...: runs COMMAND and records its outcome and duration. Exit code 77 means skipped.
step() {
  local status outcome reason='' printer
  running=$1 started=$SECONDS
  shift
  printf '\n== %s\n' "$running"
  rm -f "$tmp/reason" "$tmp/counts" "$tmp/output"
  if ! mkfifo "$tmp/output"; then
    failed=$((failed + 1))
    record FAILED ": no pipe in $tmp"
    running=''
    return
  fi
  tee "$tmp/step.log" <"$tmp/output" &
  printer=$!
  "$@" >"$tmp/output" 2>&1
  status=$?
  wait $printer
  [[ ! -f $tmp/reason ]] || reason=": $(<"$tmp/reason")"
  local step_passed=0 step_failed=0 tests_failed
  case $status in
    0) outcome=ok step_passed=1 ;;
    77) outcome=skipped ;;
    *) outcome=FAILED step_failed=1 ;;
  esac
  # Tests count one by one instead of as a step. A step that fails without a failed test still counts.
  if [[ -f $tmp/counts ]]; then
    read -r step_passed tests_failed <"$tmp/counts"
    [[ $tests_failed == 0 ]] || step_failed=$tests_failed
  fi
  passed=$((passed + step_passed))
  failed=$((failed + step_failed))
  record "$outcome" "$reason"
  [[ $outcome != FAILED ]] || complaints+=("$(printf '\n-- %s\n' "$running"; complaint "$tmp/step.log")")
  running=
}

# record OUTCOME REASON: prints how the running step ended, and keeps it for the summary.
record() {
  local line
  line=$(printf '%-7s %5ds  %s%s' "$1" $((SECONDS - started)) "$running" "$2")
  summary+=("$line")
  printf -- '-- %s\n' "$line"
}

# Ends the run as a signal does, after the summary.
interrupted() {
  trap '' INT TERM
  [[ -z $running ]] || record stopped ''
  summarize
  exit 130
}

# complaint LOG: the lines that name failures, and the last ones, in the order of the log.
complaint() {
  awk '
    FNR == NR { lines = FNR; next }
    FNR > lines - 20 { print; next }
    found < 20 && /(^|[ \t])([Ee]rror|ERROR|[Ff]atal)(:|\[)|FAILED|panicked|No space left/ { print; found++ }
  ' "$1" "$1"
}

# summarize: how the steps ended, and what the failed ones said. The last line has the counts.
summarize() {
  printf '\n== summary\n'
  ((${#summary[@]} == 0)) || printf '%s\n' "${summary[@]}"
  ((${#complaints[@]} == 0)) || printf '%s\n' "${complaints[@]}"
  printf 'in %d s, with %s left on the disk\n\n' "$SECONDS" "$(df -Ph . | awk 'NR == 2 { print $4 }')"
  printf '%d passed, %d failed\n' "$passed" "$failed"
}

# skip REASON: ends a step that has nothing to do.
skip() {
  printf 'skipped: %s\n' "$*"
  note "$*"
  return 77
}

# missing REASON: ends a step whose tool is missing. With CI=true that is a failure.
missing() {
  is_ci || { skip "$*"; return; }
  printf 'missing: %s\n' "$*"
  note "$*"
  return 1
}

# counted PATTERN COMMAND...: runs COMMAND and counts its tests. PATTERN is a sed script that turns its lines into
# "PASSED FAILED".
counted() {
  local pattern=$1 status
  shift
  "$@" 2>&1 | tee "$tmp/tests.log"
  status=$?
  sed -n "$pattern" "$tmp/tests.log" \
    | { passed=0 failed=0; while read -r p f; do passed=$((passed + p)) failed=$((failed + f)); done; echo "$passed $failed"; } \
      >"$tmp/counts"
  [[ $status == 0 && $(<"$tmp/counts") == "0 0" ]] && echo "no tests ran" && return 1
  return $status
}
