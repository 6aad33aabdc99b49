//! `sessiond export --state-only`: the state of an application or a user, which belongs to no session.

use std::{io::Write as _, path::Path};

use crate::{
    cli::{
        adk_file::{NewFile, file_name, shared_file},
        calls::{all_pages, shared_scope, users_page},
        connect::Server,
        failure::Failure,
        hidden::Form,
        output::{Format, Lines, print_in, table::Column},
        whole_state::{members_of, state_request, whole_state},
    },
    domain::{json::Json, scope::ScopeKind},
    files::FileMode,
    proto::v1,
};

const SUFFIX: &str = ".state.json";

const FILES: [Column; 3] =
    [Column::new("FILE", "file"), Column::new("USER", "user_id"), Column::new("KEYS", "keys")];

/// One scope to standard output, or the application and its users to files in a directory.
pub async fn export(
    server: &Server,
    key: v1::SessionKey,
    directory: Option<&Path>,
    file_mode: FileMode,
    format: Format,
) -> Result<(), Failure> {
    let Some(directory) = directory else {
        let state = state_of(server, &key).await?;
        if state.is_empty() {
            let owner = match key.user_id.as_str() {
                "" => format!("application `{}`", key.app_name),
                user => format!("user `{user}` of application `{}`", key.app_name),
            };
            return Err(Failure::Failed(format!("{owner} has no state of its own")));
        }
        return print_in(Form::Json, &shared_file(&key.app_name, &key.user_id, &state));
    };
    let mut owners = vec![key.user_id.clone()];
    if key.user_id.is_empty() {
        let users = async |token| users_page(server, &key.app_name, token).await;
        owners.extend(all_pages(users).await?);
    }
    let (mut files, mut lines) = (0, Lines::new(format, &FILES));
    for user_id in owners {
        let key = v1::SessionKey { user_id, ..key.clone() };
        let state = state_of(server, &key).await?;
        if state.is_empty() {
            continue;
        }
        let name = file_name([&key.app_name, &key.user_id], SUFFIX);
        let file = NewFile::create(directory, &file_mode.permissions(), &name);
        let mut file = file.map_err(Failure::Failed)?;
        let text = shared_file(&key.app_name, &key.user_id, &state);
        file.to.write_all(text.as_bytes())?;
        let path = file.finish().map_err(Failure::Failed)?;
        files += 1;
        lines.add(&serde_json::json!({
            "file": path,
            "app_name": key.app_name,
            "user_id": key.user_id,
            "keys": state.len(),
        }))?;
    }
    lines.end()?;
    match files {
        0 => Err(Failure::Failed(format!("no state in application `{}`", key.app_name))),
        _ => Ok(()),
    }
}

/// The scope's own keys: those of a user without the application's.
async fn state_of(server: &Server, key: &v1::SessionKey) -> Result<Vec<(String, Json)>, Failure> {
    let kind = if key.user_id.is_empty() { ScopeKind::Application } else { ScopeKind::User };
    let state = whole_state(server, state_request(shared_scope(key))).await?;
    let mut own = members_of(&state);
    own.retain(|(key, _)| key.starts_with(kind.prefix()));
    Ok(own)
}
