//! Which replies a task of the runtime delivers. The runtime of these tests is their own thread.

use std::{pin::pin, sync::mpsc};

use tokio::sync::oneshot::error::TryRecvError;

use super::*;

#[tokio::test]
async fn a_group_of_one_leaves_its_reply_to_the_runtime() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let mut writer = direct.writer();
    let replies = Replies::relayed().unwrap();
    let mut answers_of = |sessions: &[&str]| {
        let submit = |session: &&str| {
            let (reply, answer) = replies.channel();
            let request = Request::Create(creation("u", session));
            (Submission { context: call(), request, reply }, answer)
        };
        let (mut group, answers): (Vec<_>, Vec<_>) = sessions.iter().map(submit).unzip();
        execute_group(&mut writer, &mut group).unwrap();
        answers
    };
    for mut answer in answers_of(&["1", "2"]) {
        assert!(matches!(answer.try_recv(), Ok(Ok(Answer::Created(_)))));
    }
    let mut alone = answers_of(&["3"]).remove(0);
    assert!(matches!(alone.try_recv(), Err(TryRecvError::Empty)));
    assert!(matches!(alone.await, Ok(Ok(Answer::Created(_)))));
}

#[tokio::test]
async fn a_read_behind_which_no_other_waits_leaves_its_reply_to_the_runtime() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let (replies, metrics) = (Replies::relayed().unwrap(), Metrics::default());
    let (readers, threads) = Readers::start(&direct.lock, 1, &replies, &metrics.reads).unwrap();
    let (begins, begun) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    {
        // Its caller leaves, so that nothing is to be delivered.
        let holding = pin!(readers.read(move |_| {
            begins.send(()).unwrap();
            held.recv().unwrap();
            Ok(0)
        }));
        assert_eq!(holding.now_or_never(), None);
        begun.recv().unwrap();
    }
    let mut first = pin!(readers.read(|_| Ok(1)));
    let mut last = pin!(readers.read(|_| Ok(2)));
    assert_eq!(first.as_mut().now_or_never(), None);
    assert_eq!(last.as_mut().now_or_never(), None);
    let_go.send(()).unwrap();
    readers.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(first.now_or_never(), Some(Ok(1)));
    assert_eq!(last.as_mut().now_or_never(), None);
    assert_eq!(last.await, Ok(2));
}
