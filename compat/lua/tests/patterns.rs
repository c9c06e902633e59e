//! Patterns over long subjects: the functions of `string` give what Lua's own give, and a match that does not end is ended.

mod host;

use host::{STOPPED, TestHost, eval_with, state};
use mlua::Lua;

/// Subjects, patterns and replacements of which each is tried with each: the results as one text.
const COMPARED: &str = r#"
local subjects, out = {}, {}
for seed = 1, 4 do
    local letters, n = {}, seed
    for at = 1, 150 * seed do
        n = (n * 1103515245 + 12345) % 2147483648
        local letter = math.floor(n / 65536) % 13 + 1
        letters[at] = string.sub('ab (c1)-_%\n\0', letter, letter)
    end
    subjects[seed] = table.concat(letters)
end
local patterns = { 'a*', 'a-b', '^a*', '(a*)(b-)c', '()%s+()', '%b()', '%f[%w]%w+', '(.)%1', '[^%w%s]+', '.-$', '(%w)(%w*)',
    '[%-%%]+', '%z*', 'a?b?c?1?', '((a)b*)', '(', 'a+[', '%', 'a*%', '%1*', 'a*)', '%b(', '%f*', '' }
local by = { '<%0>', '%1%2', '%%', '%', 7, false, function(...) return (...) end, function() end, function() return {} end,
    { a = 'A', b = 1, [''] = 'E' }, {} }
local function note(ok, ...)
    for at = 1, select('#', ...) do
        local value = tostring((select(at, ...)))
        -- Lua knows no name of a function that pcall calls.
        out[#out + 1] = ok and value or string.gsub(string.gsub(value, '^.-:%d+: ', ''), "to '[%w?]+'", 'to it')
    end
    out[#out + 1] = select('#', ...)
end
for _, subject in ipairs(subjects) do
    for _, pattern in ipairs(patterns) do
        for _, init in ipairs({ 1, 7, -20, 1000, '3', 2.7, -1000 }) do
            note(pcall(string.find, subject, pattern, init))
            note(pcall(string.match, subject, pattern, init))
        end
        note(pcall(string.find, subject, pattern, 1, true))
        note(pcall(function() for a, b in string.gmatch(subject, pattern) do note(true, a, b) end end))
        for _, by in ipairs(by) do
            note(pcall(string.gsub, subject, pattern, by))
            note(pcall(string.gsub, subject, pattern, by, 3))
        end
    end
end
note(pcall(string.find, subjects[4], 'a*', {}))
note(pcall(string.gsub, subjects[4], 'a*', nil))
note(pcall(string.gsub, subjects[4], 'a*', '', {}))
return table.concat(out, '|')
"#;

#[test]
fn results_over_long_subjects_are_those_of_lua() {
    let lua = Lua::new();
    let theirs: mlua::LuaString = lua.load(COMPARED).eval().expect("it notes its errors");
    let ours = eval_with(&mut state(), &mut TestHost::default(), COMPARED.as_bytes(), &[], &[]);
    let begin = ours.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let (ours, theirs) = (&ours[begin..ours.len() - 2], theirs.as_bytes());
    let (mut ours, mut theirs) = (ours.split(|byte| *byte == b'|'), theirs.split(|byte| *byte == b'|'));
    for at in 0.. {
        let [one, other] =
            [ours.next(), theirs.next()].map(|value| value.map(|value| value.escape_ascii().to_string()));
        assert_eq!(one, other, "value {at}");
        if one.is_none() {
            break;
        }
    }
}

/// The host is asked while these match, and ends them.
#[test]
fn issue_15_a_match_that_goes_on_for_ages_is_ended() {
    for call in [
        "string.find(s, '.-.-.-.-.-.-b')",
        "string.match(s, '(a*)(a*)(a*)(a*)(a*)b')",
        "string.gsub(s, 'a*a*a*a*a*b', '')",
        "string.gmatch(s, 'a*a*a*a*a*b')()",
        "pcall(string.find, s, '.-.-.-.-.-.-b')",
        "string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 31))",
        "string.find(string.rep('(', 100000), '%b()%b()')",
        "string.find(string.rep('a', 20), '.*.*.*.*.*.*.*.*.*.*.*.*b')",
    ] {
        let mut host = TestHost { ticks_max: 50, ..TestHost::default() };
        let script = format!("local s = string.rep('a', 3000) return {call}");
        let reply = eval_with(&mut state(), &mut host, script.as_bytes(), &[], &[]);
        assert!(reply.starts_with(format!("-{STOPPED}").as_bytes()), "{call}: {}", reply.escape_ascii());
        assert_eq!(host.ticks, 50, "{call}");
    }
}
