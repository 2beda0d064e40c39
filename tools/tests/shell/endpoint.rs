//! An endpoint whose answers a test has in hand: names and values that no honest server would send,
//! connections counted, answers held back.

use crate::common::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// What a request gets.
pub(crate) enum Answer {
    /// A status and a body.
    Json(u16, String),
    /// Nothing, for ever.
    Never,
}

/// The endpoint.
pub(crate) struct Endpoint {
    pub(crate) connection: String,
    connections: Arc<AtomicUsize>,
    /// The path of each request, as it came in.
    pub(crate) asked: mpsc::Receiver<String>,
}

impl Endpoint {
    /// Begins to answer by the path of each request, without its account and parameters.
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, connections) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        let (send, asked) = mpsc::channel();
        let counted = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (answer, send) = (answer.clone(), send.clone());
                // A client that goes away ends its thread.
                std::thread::spawn(move || drop(converse(&stream, &*answer, &send)));
            }
        });
        let connection =
            format!("AccountName=abc;AccountKey=aGk=;TableEndpoint=http://127.0.0.1:{port}/abc");
        Endpoint { connection, connections, asked }
    }

    /// The path of the next request; fails where none comes.
    #[track_caller]
    pub(crate) fn next_path(&self) -> String {
        match self.asked.recv_timeout(PATIENCE) {
            Ok(path) => path,
            Err(_) => panic!("no request for {PATIENCE:?}"),
        }
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn converse(
    stream: &TcpStream,
    answer: &dyn Fn(&str) -> Answer,
    asked: &mpsc::Sender<String>,
) -> std::io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if input.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while input.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().trim_start_matches("/abc/");
        let _ = asked.send(path.to_owned());
        let (status, body) = match answer(path) {
            Answer::Json(status, body) => (status, body),
            Answer::Never => loop {
                std::thread::park();
            },
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut output = stream;
        output.write_all(head.as_bytes())?;
        output.write_all(body.as_bytes())?;
    }
}

/// Answers of a server that means harm: control characters wherever it may say something.
pub(crate) fn hostile(path: &str) -> Answer {
    let evil = "\\u001b]0;owned\\u0007\\u009b31m\\u007f\\u202e";
    match path {
        "Tables" => Answer::Json(
            200,
            format!(r#"{{"value":[{{"TableName":"tab{evil}le"}},{{"TableName":"things"}}]}}"#),
        ),
        "things()" => Answer::Json(
            200,
            format!(
                r#"{{"value":[{{"PartitionKey":"p{evil}","RowKey":"r","plain":1,"pla{evil}in":"v{evil}"}}]}}"#
            ),
        ),
        _ => Answer::Json(
            404,
            format!(
                r#"{{"odata.error":{{"code":"TableNotFound{evil}","message":{{"value":"m{evil}"}}}}}}"#
            ),
        ),
    }
}
