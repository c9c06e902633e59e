//! A large argument on its way from the socket into a run of segments, and those of the same request before it.
//!
//! ```text
//!   None ---- the parser waits for a body that may go into a run ----> Filling ---- whole ----> None, bodies + 1
//!                                                                         | no memory
//!                                                                         v
//!                                                                      Dropping -- whole ----> None, refused when it runs
//! ```
//!
//! While a body comes, the connection's input holds what precedes it, and nothing is executed. What has come counts as
//! used memory of the store and as unread input of the client. Dropped with the connection, all of it is given back.

use varve_exec::LargeArguments;
use varve_store::OpenExtent;

/// What a body's bytes go to.
#[derive(Debug)]
pub(crate) enum Filling {
    /// The run.
    Run(OpenExtent),
    /// Nothing: so many bytes more are to be read and forgotten.
    Dropping(usize),
}

/// See the module's picture.
#[derive(Debug, Default)]
pub(crate) struct Large {
    /// The bodies that are whole.
    pub(crate) bodies: LargeArguments,
    /// The one that comes.
    filling: Option<Filling>,
}

impl Large {
    /// True while a body is not whole.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Bytes that are here, in runs.
    pub(crate) fn bytes(&self) -> usize {
        let coming = match &self.filling {
            Some(Filling::Run(run)) => run.filled(),
            _ => 0,
        };
        coming + self.bodies.bytes()
    }

    /// A body begins, some of which may be in the run already. Once the request is denied it is dropped.
    pub(crate) fn begin(&mut self, run: OpenExtent) {
        assert!(self.filling.is_none(), "one body at a time");
        let left = run.len() - run.filled();
        self.filling = Some(if self.bodies.denied() { Filling::Dropping(left) } else { Filling::Run(run) });
    }

    /// A body begins for which there is no memory: so many bytes more are to come of it.
    pub(crate) fn begin_dropping(&mut self, left: usize) {
        assert!(self.filling.is_none(), "one body at a time");
        self.bodies.deny();
        self.filling = Some(Filling::Dropping(left));
    }

    /// What the body's next bytes go to.
    pub(crate) fn filling(&mut self) -> &mut Filling {
        self.filling.as_mut().expect("a body is coming")
    }

    /// There is no memory for the rest of the body: what the request has so far is let go.
    pub(crate) fn deny(&mut self) {
        self.bodies.deny();
        if let Some(Filling::Run(run)) = &self.filling {
            self.filling = Some(Filling::Dropping(run.len() - run.filled()));
        }
    }

    /// True, once, if the body that came is whole.
    pub(crate) fn is_whole(&mut self) -> bool {
        let whole = match &self.filling {
            Some(Filling::Run(run)) => run.filled() == run.len(),
            Some(Filling::Dropping(left)) => *left == 0,
            None => false,
        };
        if whole {
            match self.filling.take() {
                Some(Filling::Run(run)) => self.bodies.push(run.finish()),
                _ => self.bodies.push_dropped(),
            }
        }
        whole
    }
}
