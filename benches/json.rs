//! What reading JSON in one pass gains over serde_json's own means: `cargo bench --bench json`.
//!
//! Each round executes an operation of `domain::json`, then the same with serde_json. Its raw values keep the bytes of members; its values
//! are what it compares and merges, without their bytes.

use std::{
    collections::BTreeMap,
    hint::black_box,
    io::{Write as _, stdout},
};

use serde_json::{Value, from_str, json, value::RawValue};
use sessiond::{
    domain::json::{Json, merge_patch, same_value},
    store::instant,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 5;

/// Times that an operation is executed in a round, on a text of 1 KiB; fewer on longer ones.
const TIMES: usize = 200_000;

fn main() -> Result<(), Error> {
    writeln!(stdout(), "operation   bytes  microseconds, and of serde_json, of each round")?;
    for keys in [3, 20, 400] {
        let text = object(keys, "a")?;
        let (ours, other) = (Json::parse(text.clone())?, Json::parse(object(keys, "b")?)?);
        let patch = Json::parse(r#"{"key-1": "changed", "new": 1}"#.to_owned())?;
        let times = (TIMES * 1024 / text.len()).min(TIMES);
        let members = || Ok(black_box(&ours).members().len());
        let raw_members =
            || Ok(from_str::<BTreeMap<String, Box<RawValue>>>(black_box(&text))?.len());
        compare("members", text.len(), times, members, raw_members)?;
        let same = || Ok(usize::from(same_value(black_box(&ours), black_box(&other))));
        let equal = || {
            let [one, two] = [&ours, &other].map(|it| from_str::<Value>(black_box(it.as_str())));
            Ok(usize::from(one? == two?))
        };
        compare("compare", text.len(), times, same, equal)?;
        let merged = || Ok(merge_patch(Some(black_box(&ours)), &patch).as_str().len());
        compare("merge", text.len(), times, merged, || Ok(merge(black_box(&text), &patch)?.len()))?;
    }
    Ok(())
}

/// An object as state has them: short texts, numbers and lists.
fn object(keys: usize, last: &str) -> Result<String, Error> {
    let member = |number| {
        let value = match number % 3 {
            0 => json!("a value of some words"),
            1 => json!(number * 1000),
            _ => json!([{"name": "tool", "arguments": {"city": "Paris"}}, true, null]),
        };
        (format!("key-{number}"), value)
    };
    let mut object: BTreeMap<String, Value> = (0..keys).map(member).collect();
    object.insert("last".to_owned(), json!(last));
    Ok(serde_json::to_string(&object)?)
}

/// A merge patch of members that are no objects.
fn merge(text: &str, patch: &Json) -> Result<String, Error> {
    let mut target: BTreeMap<String, Value> = from_str(text)?;
    target.extend(from_str::<BTreeMap<String, Value>>(patch.as_str())?);
    Ok(serde_json::to_string(&target)?)
}

/// Prints how long both take.
fn compare(
    name: &str,
    bytes: usize,
    times: usize,
    ours: impl Fn() -> Result<usize, Error>,
    serde: impl Fn() -> Result<usize, Error>,
) -> Result<(), Error> {
    if ours()? != serde()? {
        return Err(format!("{name}: the results differ").into());
    }
    write!(stdout(), "{name:10}  {bytes:5}")?;
    for _ in 0..ROUNDS {
        write!(stdout(), "  {:.2}, {:.2}", measure(times, &ours)?, measure(times, &serde)?)?;
    }
    Ok(writeln!(stdout())?)
}

/// Microseconds of one execution.
fn measure(times: usize, operation: impl Fn() -> Result<usize, Error>) -> Result<f64, Error> {
    let began = instant();
    for _ in 0..times {
        black_box(operation()?);
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / times as f64)
}
