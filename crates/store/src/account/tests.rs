//! Connections that hold much, little, and those whose clients do not read.

use std::{
    pin::pin,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use futures_util::poll;
use tokio::time::advance;

use super::*;

/// An account of this many bytes, and the number of connections that it has ended.
fn account(max: usize) -> (Account, Arc<AtomicU32>) {
    let ended = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ended);
    let account = Account::new(max, move || {
        counted.fetch_add(1, Relaxed);
    });
    (account, ended)
}

fn connection(account: &Account) -> Arc<ConnectionAccount> {
    let connection = account.connection(true);
    connection.end_with(AbortHandle::new_pair().0);
    connection
}

fn is_ended(connection: &ConnectionAccount) -> bool {
    connection.end.get().unwrap().is_aborted()
}

#[tokio::test]
async fn a_call_holds_what_it_took_until_its_last_owner_drops_it() {
    let (account, _) = account(400 * CALL_BYTES);
    let connection = account.connection(true);
    let call = connection.call().unwrap();
    let queued = call.clone();
    call.take(5).unwrap();
    call.note(7);
    let item = call.item();
    item.note(1);
    assert_eq!(account.bytes(), CALL_BYTES + 13);
    call.give_back(2);
    drop(call);
    assert_eq!(account.bytes(), CALL_BYTES + 11);
    queued.keep(CALL_BYTES);
    assert_eq!(account.bytes(), CALL_BYTES + 1);
    queued.give_back(usize::MAX);
    drop((queued, item));
    assert_eq!((account.bytes(), account.0.holders.load(Relaxed)), (0, 0));
    let internal = CallAccount::default();
    internal.take(usize::MAX).unwrap();
    internal.check().unwrap();
}

#[tokio::test]
async fn a_connection_has_a_quarter() {
    let (account, _) = account(400);
    let (one, other) = (account.connection(true).item(), account.connection(true).item());
    one.take(100).unwrap();
    assert_eq!(one.take(1), Err(FULL));
    assert_eq!(account.bytes(), 100, "what is refused is not charged");
    assert_eq!(one.check(), Ok(()), "it holds no more than it may");
    one.note(1);
    assert_eq!(one.check(), Err(FULL));
    other.take(100).unwrap();
}

#[tokio::test]
async fn the_last_quarter_is_for_those_that_hold_less_than_their_share() {
    let (account, _) = account(400);
    let large: Vec<_> = (0..3).map(|_| account.connection(true).item()).collect();
    large.iter().for_each(|call| call.take(100).unwrap());
    // 300 of 400 are held by three: the share of a fourth one is 100 / (4 + 1).
    let small = account.connection(true).item();
    small.take(20).unwrap();
    assert_eq!(small.take(1), Err(FULL));
    large[0].give_back(100);
    small.take(70).unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_a_client_that_does_not_read_loses_its_connection() {
    let (account, ended) = account(400);
    let [reader, idle, stalled, larger] = [(); 4].map(|()| connection(&account));
    let call = idle.item();
    let unread = (stalled.unread(50), larger.unread(60), larger.unread(10));
    let read = reader.unread(90);
    call.take(90).unwrap();
    advance(STALLED).await;
    call.take(11).unwrap_err();
    assert!(!is_ended(&larger), "no more than three quarters are held");
    // A part that was written tells that the client reads, however much is left.
    drop(read);
    let rest = reader.unread(95);
    assert_eq!([&reader, &idle, &stalled].map(|it| is_ended(it)), [false; 3]);
    assert!(is_ended(&larger), "it leaves more unread than the other one");
    call.take(10).unwrap_err();
    assert!(!is_ended(&stalled), "what was ended gives its bytes back in a moment");
    advance(LOOK_FOR_STALLED).await;
    call.take(10).unwrap_err();
    assert!(is_ended(&stalled) && !is_ended(&reader) && !is_ended(&idle));
    advance(LOOK_FOR_STALLED).await;
    call.take(10).unwrap_err();
    assert_eq!(ended.load(Relaxed), 2, "each is ended once");
    drop((unread, rest));
    assert_eq!(account.bytes(), 90);
}

#[tokio::test(start_paused = true)]
async fn answers_beyond_the_account_end_who_does_not_read_and_nobody_else() {
    let (account, _) = account(400);
    let [one, other] = [(); 2].map(|()| connection(&account));
    let _waits = (one.unread(300), other.unread(99));
    advance(STALLED - Duration::from_millis(1)).await;
    let more = other.unread(2);
    assert!(!is_ended(&one) && !is_ended(&other), "they may still read");
    drop(more);
    advance(LOOK_FOR_STALLED).await;
    let _more = other.unread(2);
    assert!(is_ended(&one) && !is_ended(&other));
}

#[tokio::test(start_paused = true)]
async fn an_empty_part_is_no_sign_that_a_client_reads() {
    let (account, _) = account(400);
    let connection = connection(&account);
    let _unread = connection.unread(100);
    advance(STALLED).await;
    drop(connection.unread(0));
    assert!(connection.is_stalled(account.0.millis()));
}

#[tokio::test]
async fn connections_without_a_credential_have_a_quarter_together() {
    let (account, _) = account(400);
    let unknown = [(); 3].map(|()| account.connection(false));
    let calls = unknown.each_ref().map(|it| it.item());
    calls[0].take(60).unwrap();
    calls[1].take(40).unwrap();
    assert_eq!(calls[2].take(1), Err(FULL));
    account.connection(true).item().take(100).unwrap();
    unknown[0].know();
    calls[2].take(60).unwrap();
    calls[0].take(40).unwrap();
    assert_eq!(calls[1].take(1), Err(FULL));
    calls[0].give_back(100);
    calls[2].give_back(1);
    calls[1].take(1).unwrap();
    drop((calls, unknown));
    assert_eq!((account.bytes(), account.0.unknown.load(Relaxed)), (0, 0));
}

/// A call waits for as much as can be charged, or it would charge in vain for ever.
#[tokio::test]
async fn a_connection_without_a_credential_waits_for_what_all_of_them_have() {
    let (account, _) = account(400);
    let [one, other] = [(); 2].map(|()| account.connection(false).item());
    one.take(60).unwrap();
    assert_eq!(other.take(41), Err(FULL));
    assert!(poll!(pin!(other.capacity(41))).is_pending());
    assert!(poll!(pin!(other.capacity(40))).is_ready());
    other.take(40).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_part_is_given_back_piece_by_piece() {
    let (account, _) = account(400);
    let connection = account.connection(true);
    let mut part = connection.unread(10);
    let pieces = [part.split(4), part.split(4), part.split(4)];
    assert_eq!(pieces.each_ref().map(|piece| piece.bytes), [4, 4, 2]);
    drop(pieces);
    assert_eq!(account.bytes(), 0);
    drop(part);
    assert_eq!(connection.unread.load(Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_goes_on_when_there_is_capacity() {
    let (account, _) = account(400);
    let (one, other) = (account.connection(true), account.connection(true));
    let (full, waiter) = (one.item(), one.item());
    full.take(90).unwrap();
    waiter.capacity(10).await;
    let mut capacity = Box::pin(waiter.capacity(11));
    assert!(poll!(&mut capacity).is_pending());
    full.give_back(1);
    capacity.await;
    drop((full, waiter));
    // Room that another connection leaves is found as well.
    let full = [(); 3].map(|()| account.connection(true).item());
    full.iter().for_each(|call| call.take(100).unwrap());
    let waiter = other.item();
    let mut capacity = pin!(waiter.capacity(50));
    assert!(poll!(&mut capacity).is_pending());
    drop(full);
    capacity.await;
}
