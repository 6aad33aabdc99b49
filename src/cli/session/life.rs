//! Sessions begin, change, branch, go back and end.

use prost_types::FieldMask;

use super::{CreateArgs, DeleteArgs, ForkArgs, RewindArgs, UpdateArgs};
use crate::{
    cli::{
        args::JSON_FORM,
        connect::Server,
        failure::Failure,
        json, output,
        view::{CreateView, Of, RewindView, SessionView},
    },
    proto::v1::{
        CreateSessionRequest, DeleteSessionRequest, ForkSessionRequest, RewindSessionRequest,
        UpdateSessionRequest, create_session_request::StateForm,
    },
};

fn create_request(args: CreateArgs) -> Result<CreateSessionRequest, Failure> {
    let session = args.about.session();
    let state = match (args.state, args.set.is_empty()) {
        (state, true) => state,
        (state, false) => {
            let base = state.as_deref().unwrap_or("{}");
            let base = json::Object::read(base).map_err(Failure::Usage)?;
            let base = base.members.iter().map(|m| (m.key.as_str(), m.value));
            let set = args.set.iter().map(|s| (s.key.as_str(), s.value.as_str()));
            Some(json::write_object(base.chain(set)))
        }
    };
    Ok(CreateSessionRequest {
        app_name: args.app,
        user_id: args.user,
        session_id: args.session,
        state_form: state.map(StateForm::StateJson),
        session: Some(session),
        allow_existing: args.allow_existing,
        json_form: JSON_FORM,
    })
}

pub(super) async fn create(args: CreateArgs, server: &Server) -> Result<(), Failure> {
    let request = create_request(args)?;
    let answer = server.sessions().create_session(request).await?;
    output::print(&CreateView::try_from(answer.into_inner())?)
}

pub(super) fn update_request(args: &UpdateArgs) -> Result<UpdateSessionRequest, Failure> {
    let UpdateArgs { key, about, no_labels, no_expiry } = args;
    let paths = [
        ("display_name", about.display_name.is_some()),
        ("labels", *no_labels || !about.labels.is_empty()),
        ("expire_time", *no_expiry || about.expire_time.is_some()),
        ("ttl", about.ttl.is_some()),
    ];
    let paths: Vec<_> = paths
        .into_iter()
        .filter(|(_, changed)| *changed)
        .map(|(path, _)| path.to_owned())
        .collect();
    if paths.is_empty() {
        return Err(Failure::Usage(
            "say what to change: --display-name, --label, --no-labels, --ttl, --expire-time or --no-expiry".to_owned(),
        ));
    }
    Ok(UpdateSessionRequest {
        key: Some(key.key()),
        session: Some(about.session()),
        update_mask: Some(FieldMask { paths }),
    })
}

pub(super) async fn update(request: UpdateSessionRequest, server: &Server) -> Result<(), Failure> {
    let answer = server.sessions().update_session(request).await?.into_inner();
    let session = SessionView::try_from(answer.session.unwrap_or_default())?;
    output::print(&Of { session })
}

pub(super) async fn delete(args: DeleteArgs, server: &Server) -> Result<(), Failure> {
    let request =
        DeleteSessionRequest { key: Some(args.key.key()), allow_missing: args.allow_missing };
    server.sessions().delete_session(request).await?;
    output::print(&serde_json::json!({}))
}

pub(super) async fn fork(args: ForkArgs, server: &Server) -> Result<(), Failure> {
    let request = ForkSessionRequest {
        key: Some(args.key.key()),
        up_to_sequence: args.up_to,
        session_id: args.new_session,
        json_form: JSON_FORM,
    };
    let answer = server.sessions().fork_session(request).await?.into_inner();
    let session = SessionView::try_from(answer.session.unwrap_or_default())?;
    output::print(&Of { session })
}

pub(super) async fn rewind(args: RewindArgs, server: &Server) -> Result<(), Failure> {
    let request = RewindSessionRequest {
        key: Some(args.key.key()),
        to_sequence: Some(args.to),
        event_id: args.event_id,
        author: args.author,
        precondition: args.precondition.precondition(),
        json_form: JSON_FORM,
    };
    let answer = server.sessions().rewind_session(request).await?;
    output::print(&RewindView::try_from(answer.into_inner())?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::proto::v1::session::Expiration;

    #[derive(Debug, Parser)]
    struct Create {
        #[command(flatten)]
        args: CreateArgs,
    }

    #[derive(Debug, Parser)]
    struct Update {
        #[command(flatten)]
        args: UpdateArgs,
    }

    fn create_line(arguments: &[&str]) -> CreateSessionRequest {
        let line = [&["x", "--app", "a", "--user", "u"], arguments].concat();
        create_request(Create::try_parse_from(line).unwrap().args).unwrap()
    }

    fn update_line(arguments: &[&str]) -> Result<UpdateSessionRequest, Failure> {
        let line = [&["x", "--app", "a", "--user", "u", "--session", "s"], arguments].concat();
        update_request(&Update::try_parse_from(line).unwrap().args)
    }

    #[test]
    fn initial_state_comes_from_both_arguments() {
        let state = |arguments: &[&str]| match create_line(arguments).state_form {
            Some(StateForm::StateJson(text)) => Some(text),
            Some(StateForm::State(_)) => panic!("not as text"),
            None => None,
        };
        assert_eq!(state(&[]), None);
        assert_eq!(state(&["--state", "{ \"a\":1.0}"]).unwrap(), "{ \"a\":1.0}");
        assert_eq!(
            state(&["--state", "{\"a\":1.0}", "--set", "app:b=[]"]).unwrap(),
            r#"{"a":1.0,"app:b":[]}"#
        );
    }

    #[test]
    fn what_is_said_about_a_session_is_sent() {
        let request = create_line(&[
            "--ttl",
            "1h",
            "--label",
            "a=b",
            "--display-name",
            "n",
            "--allow-existing",
        ]);
        let session = request.session.unwrap();
        assert_eq!(session.display_name, "n");
        assert_eq!(session.labels["a"], "b");
        assert!(matches!(session.expiration, Some(Expiration::Ttl(d)) if d.seconds == 3600));
        assert!(request.allow_existing);
    }

    #[test]
    fn an_update_masks_what_was_said_and_nothing_else() {
        let paths = |arguments: &[&str]| update_line(arguments).unwrap().update_mask.unwrap().paths;
        assert_eq!(paths(&["--display-name", ""]), ["display_name"]);
        assert_eq!(paths(&["--no-labels", "--ttl", "5s"]), ["labels", "ttl"]);
        assert_eq!(
            paths(&["--label", "a=b", "--expire-time", "2030-01-01T00:00:00Z"]),
            ["labels", "expire_time"]
        );
        assert_eq!(paths(&["--no-expiry"]), ["expire_time"]);
        assert_eq!(update_line(&["--no-expiry"]).unwrap().session.unwrap().expiration, None);
        assert!(matches!(update_line(&[]), Err(Failure::Usage(_))));
    }
}
