//! Reads wait in turns between callers.

use std::sync::mpsc;

use super::{super::readers::join, *};
use sessiond_store::{CallerId, read_as};

#[tokio::test]
async fn many_reads_of_a_caller_hold_up_no_other() {
    let folder = TempDir::new().unwrap();
    let direct = DirectWriter::open(folder.path(), &TestClock::new(1));
    let metrics = Metrics::default();
    let lock = &direct.lock;
    let (readers, threads) = Readers::start(lock, 1, &metrics.reads).unwrap();
    let (begin, begun) = mpsc::channel::<()>();
    let (starts, started) = mpsc::channel::<()>();
    let order = Arc::new(Mutex::new(Vec::new()));
    let read = |caller, number| {
        let (readers, order) = (readers.clone(), Arc::clone(&order));
        let context = RequestContext { caller, ..RequestContext::internal() };
        let read = async move {
            readers
                .read(move |_| {
                    order.lock().unwrap().push(number);
                    Ok(())
                })
                .await
        };
        Box::pin(async move { read_as(&context, read).await })
    };
    let first = readers.read(move |_| {
        starts.send(()).unwrap();
        begun.recv().unwrap();
        Ok(())
    });
    let other = CallerId::new(&RequestContext::internal().principal, 7);
    let mut reads: Vec<_> = (0..64).map(|number| read(CallerId::INTERNAL, number)).collect();
    reads.push(read(other, 100));
    let mut first = Box::pin(first);
    assert!(futures_util::poll!(&mut first).is_pending());
    started.recv().unwrap();
    for read in &mut reads {
        assert!(futures_util::poll!(read).is_pending());
    }
    assert_eq!(readers.waiting(), 65);
    begin.send(()).unwrap();
    first.await.unwrap();
    for read in reads {
        read.await.unwrap();
    }
    let order = order.lock().unwrap();
    assert_eq!(order[..4], [0, 100, 1, 2], "the other's is the next but one");
    assert_eq!(
        order.iter().filter(|it| **it != 100).copied().collect::<Vec<_>>(),
        (0..64).collect::<Vec<_>>()
    );
    readers.close();
    threads.into_iter().for_each(join);
}
