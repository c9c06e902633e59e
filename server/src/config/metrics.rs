//! The settings of the metrics port.

use super::table::Values;

/// Where and under which names figures are told over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricsSettings {
    /// The port, 0 for none.
    pub(crate) port: u16,
    /// Its addresses, as `bind` has them.
    pub(crate) bind: Vec<String>,
    /// The names under which it answers beside them.
    pub(crate) hosts: Vec<String>,
    /// Figures name keys.
    pub(crate) names: bool,
}

impl MetricsSettings {
    pub(super) fn new(values: &Values) -> MetricsSettings {
        MetricsSettings {
            port: values.number("metrics-port"),
            bind: values.words("metrics-bind"),
            hosts: values.words("metrics-hosts"),
            names: values.yes("figures-with-key-names"),
        }
    }
}
