//! INFO's lines by their names.

use std::collections::HashMap;

use super::reply::shown;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Info {
    fields: HashMap<String, String>,
}

impl Info {
    /// Of INFO's text. Lines that are no field are passed over.
    pub(crate) fn parse(text: &str) -> Info {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Info { fields: fields.map(|(name, value)| (name.to_owned(), shown(value.as_bytes()))).collect() }
    }

    /// A field's text; empty without one.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A field's number; 0 without one.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// The fields whose names begin so: the rest of the name, and the value as a [`List`]. In no order.
    pub(crate) fn family<'i>(&'i self, prefix: &'i str) -> impl Iterator<Item = (&'i str, List<'i>)> {
        self.fields.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, List(value))))
    }
}

/// A value of the form `a=1,b=2`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'i>(pub(crate) &'i str);

impl<'i> List<'i> {
    /// The text behind a name; empty without one.
    pub(crate) fn text(self, name: &str) -> &'i str {
        let pairs = self.0.split(',').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(known, _)| *known == name).map(|(_, value)| value).next().unwrap_or_default()
    }

    /// The number behind a name; 0 without one.
    pub(crate) fn number(self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_families() {
        let info =
            Info::parse("# Server\r\nuptime_in_seconds:7\r\ncmdstat_config|get:calls=2,usec=12\r\nos:a\x1bb\r\n");
        assert_eq!((info.number("uptime_in_seconds"), info.number("nothing"), info.text("os")), (7.0, 0.0, "a\\x1bb"));
        let commands: Vec<_> = info.family("cmdstat_").map(|(name, list)| (name, list.number("usec"))).collect();
        assert_eq!(commands, [("config|get", 12.0)]);
    }
}
