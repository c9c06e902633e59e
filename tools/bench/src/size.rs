//! How much an experiment measures.

/// Three forms of every experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Seconds: shows that everything runs; the figures mean nothing.
    Tiny,
    /// Minutes: figures that show the direction.
    Quick,
    /// The seeds' own sizes, at most 90 minutes an experiment.
    Full,
}

impl Size {
    /// From the `--quick` of an experiment that is run alone.
    pub(crate) fn of(quick: bool) -> Size {
        if quick { Size::Quick } else { Size::Full }
    }

    /// One of the three values.
    pub(crate) fn pick<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            Size::Tiny => tiny,
            Size::Quick => quick,
            Size::Full => full,
        }
    }

    /// True for the two that are smaller than the seeds.
    pub(crate) fn is_small(self) -> bool {
        self != Size::Full
    }

    /// Its name, also that of its folder.
    pub(crate) fn word(self) -> &'static str {
        self.pick("tiny", "quick", "full")
    }

    /// The sentence that a reader of the report needs.
    pub(crate) fn warning(self) -> Option<&'static str> {
        match self {
            Size::Tiny => Some("This is the tiny form. It shows that everything runs; its figures mean nothing."),
            Size::Quick => Some(
                "This is the quick form: smaller data and fewer runs than the seeds have. It shows directions; small \
                 differences mean nothing.",
            ),
            Size::Full => None,
        }
    }
}
