//! What makes a page one can play with: the script, what it has to know, and the policy that lets nothing else run.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::theme::SlotStyle;

/// The script as people read it.
const SCRIPT: &str = include_str!("interact.js");

/// Another unit in which the x axes of convertible panels can be shown.
///
/// For each series it says which value a number of rounds comes to. Between the knots the way is straight; it begins at
/// nothing before the first round.
#[derive(Clone, Debug, Serialize)]
pub struct AxisUnit {
    name: String,
    label: String,
    by: BTreeMap<String, Vec<(f64, f64)>>,
}

impl AxisUnit {
    /// A unit by the name that one chooses it by, and the label of axes.
    pub fn new(name: impl Into<String>, label: impl Into<String>) -> Self {
        Self { name: name.into(), label: label.into(), by: BTreeMap::new() }
    }

    /// Adds a series with its knots, each a number of rounds and the value that they come to, in increasing order.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, knots: Vec<(f64, f64)>) -> Self {
        if !knots.is_empty() {
            self.by.insert(name.into(), knots);
        }
        self
    }
}

/// The script as it stands in a page: without comments and without spaces and line breaks that mean nothing.
pub(super) fn script() -> String {
    let lines = SCRIPT.lines().map(str::trim);
    lines.filter(|line| !line.starts_with("//") && !line.starts_with("/**")).map(squeezed).collect()
}

/// A line of the script without the spaces beside signs, outside of quotes.
fn squeezed(line: &str) -> String {
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == '$';
    let (mut text, mut quote) = (String::with_capacity(line.len()), None);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match quote {
            Some(open) if open == sign => quote = None,
            None if matches!(sign, '\'' | '"' | '`') => quote = Some(sign),
            None if sign == ' ' => {
                let ends_word = text.chars().next_back().is_some_and(is_word);
                if !(ends_word && signs.peek().copied().is_some_and(is_word)) {
                    continue;
                }
            }
            _ => {}
        }
        text.push(sign);
    }
    text
}

/// The policy of a page with this style and this script: nothing but these two, and no request unless the page is live.
/// Figures say in an attribute how much they may shrink.
pub(super) fn content_security_policy(style: &str, script: &str, is_live: bool) -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    // A page that is served has a second script, and asks its server.
    let (own, asks) = if is_live { (" 'self'", " connect-src 'self';") } else { ("", "") };
    format!(
        "default-src 'none'; script-src {}{own};{asks} style-src {}; style-src-attr 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    )
}

/// The names that one can choose from, each with its colour and its dashes.
pub(super) fn choices(names: &[(String, usize)]) -> String {
    let looks = names.iter().map(|(name, slot)| {
        let SlotStyle { color, dash, .. } = SlotStyle::of_slot(*slot);
        (name, color, dash)
    });
    json(&looks.collect::<Vec<_>>())
}

/// A value as text that may stand in a script element: nothing in it can end the element.
pub(super) fn json(value: &impl Serialize) -> String {
    // Names and numbers can always be written; without them the script has nothing to offer.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "[]".to_owned());
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size is a promise of the README.
    #[test]
    fn the_script_is_small_and_asks_for_nothing() {
        let script = script();
        assert!(script.len() < 15_000, "{} bytes", script.len());
        for word in ["fetch", "XMLHttp", "import", "http:", "https:", "eval", "innerHTML", "cookie"]
        {
            let asked = script.replace("http://www.w3.org/2000/svg", "");
            assert!(!asked.contains(word), "{word}");
        }
        assert!(!script.contains("</") && !script.contains("]]>"), "it would end its element");
    }

    #[test]
    fn squeezing_keeps_words_and_quotes_apart() {
        let line = "const text = `a ${b} c`; return typeof x === 'a  b' ? [1, 2] : -x;";
        let short = "const text=`a ${b} c`;return typeof x==='a  b'?[1,2]:-x;";
        assert_eq!(squeezed(line), short);
    }

    #[test]
    fn data_cannot_end_their_element() {
        let text = json(&["</script>", "<!--", "a & b"]);
        assert!(!text.contains(['<', '>', '&']), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap()[0], "</script>");
    }
}
