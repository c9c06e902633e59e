//! Patterns over long subjects: the functions of `string` give what Lua's own give, and a match that does not end is ended.

use crate::host::{STOPPED, TestHost, eval_with, state};
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

/// Plain texts and functions that go through long texts in parts.
const PARTS: &str = r#"
local out = {}
local function note(...)
    for at = 1, select('#', ...) do out[#out + 1] = tostring((select(at, ...))) end
    out[#out + 1] = select('#', ...)
end
local long = string.rep('abc Def', 40000) .. 'x' .. string.rep('gh\0i', 20000)
local half = string.rep('a', 120000) .. 'b\0c' .. string.rep('a', 20000)
for _, text in ipairs({ 'c D', 'fx', 'xg', 'nosuch', '', 'h\0i', string.rep('a', 150) .. 'b', string.rep('a', 150) .. 'b\0c',
    string.rep('z', 200000), string.rep('a', 200) .. 'q', 'b\0d', 'i', string.rep('c Defab', 30),
    'h\0i*', '\0*', 'nosuch\0%', 'c\0[', string.rep('a', 150) .. 'b\0[', string.rep('c Defab', 30) .. '\0*' }) do
    for _, subject in ipairs({ long, half, 'short a' }) do
        for _, init in ipairs({ 1, 5, 280000, -5, 1e6 }) do
            note(subject:find(text, init))
            note(subject:find(text, init, true))
            note(#(subject:match(text, init) or 'no'))
        end
        local count = 0
        for match in subject:gmatch(text) do count = count + #match + 1 if count > 3000 then break end end
        note(count)
        local changed, times = subject:gsub(text, '<%0>', 50)
        note(changed:sub(1, 20), changed:sub(-20), #changed, times)
    end
end
local upper, lower, back = long:upper(), long:lower(), long:reverse()
note(#upper, upper:sub(1, 9), upper:sub(-9), upper == upper:upper(), #lower, lower:sub(-9), #back, back:sub(1, 9), back:sub(-9))
note(back:reverse() == long, upper:lower() == lower)
local many = {}
for i = 1, 25000 do many[i] = i % 7 end
for _, by in ipairs({ '', ',', 1, 'abc' }) do
    local joined = table.concat(many, by)
    note(#joined, joined:sub(1, 30), joined:sub(-30), joined:sub(19990, 20020))
    note(table.concat(many, by, 24990), table.concat(many, by, 3, 9))
end
many[15000] = {}
note(select(2, pcall(table.concat, many)):gsub('^.-:%d+: ', ''))
table.sort(many, function(a, b) return (tonumber(tostring(a)) or 9) > (tonumber(tostring(b)) or 9) end)
note(type(many[1]), many[2], many[25000])
local by = string.rep('y', 100001)
note(#('axbx'):gsub('x', by), #('axbx'):gsub('x', by .. '%0%%'), #('x'):gsub('(x)', by .. '%1', 1))
return table.concat(out, '|')
"#;

/// Asserts that a script gives what plain Lua gives.
fn compare(script: &str) {
    let lua = Lua::new();
    let theirs: mlua::LuaString = lua.load(script).eval().expect("it ends well");
    let ours = eval_with(&mut state(), &mut TestHost::default(), script.as_bytes(), &[], &[]);
    let begin = ours.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let (ours, theirs) = (&ours[begin..ours.len() - 2], theirs.as_bytes());
    let (mut ours, mut theirs) = (ours.split(|byte| *byte == b'|'), theirs.split(|byte| *byte == b'|'));
    for at in 0.. {
        let (ours, theirs) = (ours.next(), theirs.next());
        let shown = |part: Option<&[u8]>| part.map(|part| part[..part.len().min(200)].escape_ascii().to_string());
        assert_eq!(shown(ours), shown(theirs), "note {at}");
        if ours.is_none() {
            break;
        }
    }
}

#[test]
fn functions_that_work_in_parts_give_what_those_of_lua_give() {
    compare(PARTS);
}

#[test]
fn results_over_long_subjects_are_those_of_lua() {
    compare(COMPARED);
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
