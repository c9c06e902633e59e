//! A page in a browser that a test uses as a person does: by keys, in windows of any size, over time.
//!
//! ```text
//!   test --{"id":1,"method":..,"params":..}\0--> chromium, descriptor 3     the protocol of its developers' tools,
//!        <--{"id":1,"result":..}\0-------------- descriptor 4               by two named pipes
//!        <--{"method":"Network.requestWillBeSent",..}\0--                   events, kept until somebody asks for them
//! ```
//! The page's clock is the real one here. For the tree of a page after some of its own time, [`crate::browser`] is enough.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding};
pub use serde_json::{Value, json};

use crate::browser;

/// Seconds that a browser lives beyond those that its test wants.
const PATIENCE_S: u64 = 300;
/// How long [`Tab::until`] waits.
const LIMIT: Duration = Duration::from_secs(60);

/// A page in a browser of its own. Dropping it ends the browser.
#[derive(Debug)]
pub struct Tab {
    child: Child,
    input: File,
    output: BufReader<File>,
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    folder: PathBuf,
}

/// A window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// The reader wants dark pages.
    pub is_dark: bool,
    /// It is a phone's.
    pub is_phone: bool,
}

impl Tab {
    /// Starts a browser for a test of this length, seconds. It keeps its files in `folder`, which is made, and removed again.
    ///
    /// # Errors
    /// The browser does not start.
    pub fn start(folder: &Path, seconds: u64) -> io::Result<Tab> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let pipes = ["in", "out"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args(&pipes).status()?;
        if !made.success() {
            return Err(io::Error::other("mkfifo"));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 3<\"$IN\" 4>\"$OUT\"", "sh", "timeout", &(seconds + PATIENCE_S).to_string()]);
        shell.args(browser::WORDS).args(["--remote-debugging-pipe", "about:blank"]);
        shell.arg(format!("--user-data-dir={}", folder.display())).env("IN", &pipes[0]).env("OUT", &pipes[1]);
        let errors = fs::File::create(folder.join("errors"))?;
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn()?;
        // Each opening waits for the other end's.
        let input = File::options().write(true).open(&pipes[0])?;
        let output = BufReader::new(File::open(&pipes[1])?);
        let (session, events, folder) = (None, Vec::new(), folder.to_owned());
        let mut tab = Tab { child, input, output, session, calls: 0, events, folder };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}))?["targetId"].clone();
        let session = tab.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}))?;
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(tab)
    }

    /// Calls a method of the protocol.
    ///
    /// # Errors
    /// The browser is gone, or refuses.
    pub fn call(&mut self, method: &str, params: Value) -> io::Result<Value> {
        self.calls += 1;
        let mut request = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{request}\0").as_bytes())?;
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes)?;
            if bytes.pop() != Some(0) {
                let said = fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
                return Err(io::Error::other(format!("the browser has ended: {said}")));
            }
            let mut answer: Value = serde_json::from_slice(&bytes)?;
            match answer["id"].as_u64() {
                Some(id) if id == self.calls && answer["error"].is_null() => return Ok(answer["result"].take()),
                Some(id) if id == self.calls => {
                    return Err(io::Error::other(format!("{method}: {}", answer["error"])));
                }
                _ => self.events.push(answer),
            }
        }
    }

    /// Opens an address in a window.
    ///
    /// # Errors
    /// See [`Tab::call`].
    pub fn open(&mut self, address: &str, window: Window) -> io::Result<()> {
        let Window { width, height, is_dark, is_phone } = window;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_phone}))?;
        let scheme = json!({"name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" }});
        self.call("Emulation.setEmulatedMedia", json!({"features": [scheme]}))?;
        self.call("Page.navigate", json!({"url": address})).map(drop)
    }

    /// The value of an expression in the page.
    ///
    /// # Errors
    /// See [`Tab::call`]; the expression throws.
    pub fn value(&mut self, expression: &str) -> io::Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", params)?;
        if answer["exceptionDetails"].is_null() {
            return Ok(answer["result"]["value"].take());
        }
        Err(io::Error::other(format!("{expression}: {}", answer["exceptionDetails"])))
    }

    /// Waits until an expression is true, a minute at most.
    ///
    /// # Panics
    /// When it is not true by then, or the browser fails.
    pub fn until(&mut self, expression: &str) {
        let end = Instant::now() + LIMIT;
        // A page that is not there yet has none of its elements.
        let guarded = format!("(() => {{ try {{ return {expression} }} catch (error) {{ return false }} }})()");
        while self.value(&guarded).expect("the browser answers") != Value::Bool(true) {
            assert!(Instant::now() < end, "not within a minute: {expression}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses a key: `Tab`, `Enter`, `ArrowRight` and the like, with the code that keyboards have for it.
    ///
    /// # Errors
    /// See [`Tab::call`].
    pub fn press(&mut self, key: &str, code: u32) -> io::Result<()> {
        let text = if key == "Enter" { "\r" } else { "" };
        let params =
            |kind: &str| json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
        self.call("Input.dispatchKeyEvent", params(if text.is_empty() { "rawKeyDown" } else { "keyDown" }))?;
        self.call("Input.dispatchKeyEvent", params("keyUp")).map(drop)
    }

    /// Touches a place of the window, as a finger does that taps it.
    ///
    /// # Errors
    /// See [`Tab::call`].
    pub fn tap(&mut self, x: f64, y: f64) -> io::Result<()> {
        let touch = |kind: &str, points: Value| json!({"type": kind, "touchPoints": points});
        self.call("Input.dispatchTouchEvent", touch("touchStart", json!([{"x": x, "y": y}])))?;
        self.call("Input.dispatchTouchEvent", touch("touchEnd", json!([]))).map(drop)
    }

    /// A picture of the whole page, also of what lies below the window: a file in the form PNG.
    ///
    /// # Errors
    /// See [`Tab::call`]; the file cannot be written.
    pub fn picture(&mut self, file: &Path) -> io::Result<()> {
        let mut answer = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}))?;
        let Value::String(text) = answer["data"].take() else { return Err(io::Error::other("no picture")) };
        let bytes = Base64::decode_vec(&text).map_err(|error| io::Error::other(error.to_string()))?;
        fs::write(file, bytes)
    }

    /// The events of these methods since the last time that somebody asked.
    pub fn events(&mut self, methods: &[&str]) -> Vec<Value> {
        let is_wanted = |event: &Value| methods.iter().any(|method| event["method"] == *method);
        let (wanted, rest) = std::mem::take(&mut self.events).into_iter().partition(is_wanted);
        self.events = rest;
        wanted
    }

    /// Complaints of the page: exceptions, lines of its console, notes of the browser about it.
    pub fn complaints(&mut self) -> Vec<Value> {
        self.events(&["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"])
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // The browser's own processes end with it, which a kill of the first one would leave.
        self.session = None;
        let _ = self.call("Browser.close", json!({}));
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
