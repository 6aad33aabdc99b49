//! Verifying a file before it is served. Findings and progress go to the log.

use std::{path::Path, time::Duration};

use serde::Serialize;
use tokio::time::Instant;
use tracing::{error, info};

use super::{
    super::file::OpenError,
    report::{Finding, Observer, Progress, Summary},
    verify_locked,
};
use sessiond_store::instant;

/// Time between two lines of progress: a file that takes minutes has some dozens of them.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Verifies a file that the caller has locked, and logs what was found. Errors: [`OpenError::Findings`].
pub(in super::super) fn before_serving(path: &Path) -> Result<(), OpenError> {
    let summary = verify_locked(path, &mut ServerLog { due: instant() })?;
    let Summary { sessions, applications_and_users, events, findings } = summary;
    info!(sessions, applications_and_users, events, findings, "the database was verified");
    match findings {
        0 => Ok(()),
        _ => Err(OpenError::Findings { path: path.into(), findings }),
    }
}

struct ServerLog {
    /// When progress is logged next.
    due: Instant,
}

impl Observer for ServerLog {
    fn found(&mut self, finding: &Finding) {
        let Finding { check, place, position, message } = finding;
        let place = place.as_ref();
        let app_name = place.map(|place| &*place.app_name);
        let user_id = place.and_then(|place| place.user_id.as_deref());
        let session_id = place.and_then(|place| place.session_id.as_deref());
        error!(
            check = name(check),
            app_name,
            user_id,
            session_id,
            position,
            finding = message,
            "the database is damaged"
        );
    }

    fn progress(&mut self, progress: Progress) {
        let now = instant();
        if now >= self.due {
            self.due = now + PROGRESS_EVERY;
            let Progress { part, rows, total } = progress;
            info!(part = name(&part), rows, total, "verifying the database");
        }
    }
}

/// A name as it is serialised.
fn name(of: &impl Serialize) -> String {
    serde_json::to_value(of).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Seek as _},
        sync::Arc,
    };

    use serde_json::{Value, json};

    use super::{
        super::report::{Check, Location, Part},
        *,
    };

    /// What is logged meanwhile, as JSON.
    fn logged(work: impl FnOnce(&mut ServerLog)) -> Vec<Value> {
        let mut file = tempfile::tempfile().unwrap();
        let writer = Arc::new(file.try_clone().unwrap());
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(writer).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        work(&mut ServerLog { due: instant() });
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        // A parser of objects keeps the last of two members of one name.
        assert!(text.lines().all(|line| line.matches("\"message\":").count() == 1), "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_finding_has_its_place_in_fields() {
        let finding = |place| Finding {
            check: Check::Unreadable,
            place,
            position: Some(7),
            message: "a row cannot be read".into(),
        };
        let place =
            Location { app_name: "shop".into(), user_id: Some("al\nice".into()), session_id: None };
        let lines = logged(|log| {
            log.found(&finding(Some(place)));
            log.found(&finding(None));
        });
        let told = |line: &Value| {
            ["message", "check", "finding", "app_name", "user_id", "session_id", "position"]
                .map(|name| line[name].clone())
        };
        let (message, finding) = (json!("the database is damaged"), json!("a row cannot be read"));
        let check = json!("unreadable");
        let (app, user, none) = (json!("shop"), json!("al\nice"), Value::Null);
        let whole = [&message, &check, &finding, &app, &user, &none, &json!(7)].map(Clone::clone);
        assert_eq!(told(&lines[0]), whole);
        let whole = [&message, &check, &finding, &none, &none, &none, &json!(7)].map(Clone::clone);
        assert_eq!(told(&lines[1]), whole);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_logged_every_few_seconds() {
        let mut log = ServerLog { due: instant() };
        let mut file = tempfile::tempfile().unwrap();
        let writer = Arc::new(file.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().json().with_writer(writer).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        for rows in 0..120 {
            log.progress(Progress { part: Part::Sessions, rows, total: Some(120) });
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fields: Vec<_> = lines.map(|line| line["fields"].clone()).collect();
        let line = |rows: u64| {
            let message = "verifying the database";
            json!({ "message": message, "part": "sessions", "rows": rows, "total": 120 })
        };
        assert_eq!(fields, [line(0), line(50), line(100)]);
    }
}
