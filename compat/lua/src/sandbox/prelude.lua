-- The ground on which scripts stand: globals and libraries that cannot be changed, and functions of Lua 5.1 that need a
-- guard. Plain Lua 5.1 has no read-only tables, so a script sees stand-ins:
--
--   _G ─▶ {} ─metatable─▶ __index ─▶ the globals ─metatable─▶ __index ─▶ an error: no such variable
--                         __newindex ─▶ an error: read-only
--
-- `behind` knows the table behind each stand-in. Functions that read or write tables without metamethods ask it first.
-- What C functions complain of here names this file as its place; `mended` (sandbox.rs) puts the script's place there.
-- Names of local functions are those that their messages quote.

-- The environment of all of it is `_G` as scripts see it: `getfenv(pcall)` shows no more than that.
local globals, native, null, visible = ...

local concat, error, next, rawequal, select, tostring, type, xpcall =
    table.concat, error, next, rawequal, select, tostring, type, xpcall
local byte, find, gmatch, gsub, match, sub =
    string.byte, string.find, string.gmatch, string.gsub, string.match, string.sub
local string = string
local lower, reverse, upper = string.lower, string.reverse, string.upper
local ceil, floor, max = math.ceil, math.floor, math.max
local getmetatable, setmetatable, ipairs, pairs, rawget, rawset, tonumber, unpack =
    getmetatable, setmetatable, ipairs, pairs, rawget, rawset, tonumber, unpack
local call_protected, resume = pcall, coroutine.resume
local insert, remove, sort, rep = table.insert, table.remove, table.sort, string.rep
local opened, mended, ended, scan, tick = native.opened, native.mended, native.ended, native.scan, native.tick
local lists, draw, seed = native.lists, native.draw, native.seed
local seek, specials = native.seek, native.specials

local READONLY = 'Attempt to modify a readonly table'
local NONE = {} -- the metatable of stand-ins that shall seem to have none

local behind = {}

-- Names of fields of replies. A string that something refers to is found; else each reply would make it anew, and leave it to the
-- collector.
local FIELDS = { ok = true, err = true, double = true, map = true, set = true, big_number = true, verbatim_string = true,
    format = true, string = true, ignore_error_stats_update = true }
behind[FIELDS] = FIELDS

local function refuse()
    error(READONLY, 2)
end

-- A stand-in for `table`, or `proxy` made one; `shown` is what getmetatable answers for it.
local function stand_in(table, shown, proxy)
    local about = { __index = table, __newindex = refuse, __metatable = shown or NONE }
    proxy = setmetatable(proxy or {}, about)
    behind[proxy] = table
    return proxy, about
end

-- KEYS and ARGV are made late for a script whose text does not name them.
local function missing(_, name)
    if (name == 'KEYS' or name == 'ARGV') and lists() then
        return rawget(globals, name)
    end
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- Errors -----------------------------------------------------------------------------------------------------------------

-- The value of an error as scripts see it. An error that ends the script is raised anew.
local function seen(e)
    if type(e) == 'userdata' and not rawequal(e, null) then
        return opened(e)
    end
    if type(e) == 'string' and byte(e) == 1 then
        return (gsub(e, '^\1:%d+: ', ''))
    end
    return e
end

local function resumed(ok, ...)
    if ok then
        return true, ...
    end
    return false, seen((...))
end

-- redis-server's pcall gives the text of an error table in place of the table.
local function caught(ok, ...)
    if ok then
        return true, ...
    end
    local e = seen((...))
    if type(e) == 'table' then
        local text = e.err
        if type(text) == 'string' or type(text) == 'number' then
            return false, text
        end
        return false, e, text
    end
    return false, e
end

function globals.pcall(...)
    if select('#', ...) == 1 then
        return caught(xpcall((...), mended))
    end
    local pcall = call_protected
    return caught(pcall(...))
end

-- An error of a handler goes to the handler. C would nest them until its stack is used up, and then leave all frames at once: what
-- Rust has in them would be lost.
local HANDLERS_MOST = 20

function globals.xpcall(...)
    local f, handler = ...
    if select('#', ...) < 2 then
        error("bad argument #2 to 'xpcall' (value expected)", 2)
    end
    return resumed(xpcall(f, function(e)
        for _ = 1, HANDLERS_MOST do
            if type(e) == 'userdata' and not rawequal(e, null) then
                local ok, value = call_protected(opened, e)
                if not ok then
                    return e
                end
                e = value
            else
                e = mended(e)
            end
            local ok, value = call_protected(handler, e)
            if ok then
                return value
            end
            e = value
        end
        return 'error in error handling'
    end))
end

function coroutine.resume(...)
    return resumed(resume(...))
end

-- Tables -----------------------------------------------------------------------------------------------------------------

function globals.getmetatable(...)
    local found = getmetatable(...)
    if found ~= NONE then
        return found
    end
end

function globals.setmetatable(...)
    local table = ...
    if behind[table] then
        error(READONLY, 0)
    end
    return setmetatable(...)
end

function globals.rawget(...)
    local table, key = ...
    local hidden = behind[table]
    if hidden then
        lists()
        return rawget(hidden, key)
    end
    return rawget(...)
end

function globals.rawset(...)
    local table = ...
    if behind[table] then
        error(READONLY, 0)
    end
    return rawset(...)
end

function globals.next(...)
    local table, key = ...
    local hidden = behind[table]
    if hidden then
        lists()
        return next(hidden, key)
    end
    return next(...)
end

function globals.pairs(...)
    local table = ...
    if behind[table] then
        return globals.next, table, nil
    end
    return pairs(...)
end

-- Functions of C run to their end: over tables longer than this, the host is asked before or meanwhile.
local SHORT_MOST = 10000

-- A place far outside of the table would keep `insert` in a loop that nothing can end.
local PLACE_LEAST, PLACE_MOST = -1000000, 100000000

function table.insert(...)
    local table, place, third = ...
    if behind[table] then
        error(READONLY, 0)
    end
    if third ~= nil or place ~= nil and select('#', ...) > 2 then
        local at = tonumber(place)
        if at and not (at > PLACE_LEAST and at < PLACE_MOST) then
            error("bad argument #2 to 'insert' (position out of bounds)", 2)
        end
        if at and type(table) == 'table' and #table - at > SHORT_MOST then
            tick()
        end
    end
    return insert(...)
end

-- C computes how many values there are in 32 bits, and believes an overflow (CVE-2025-46817).
local RESULTS_MOST = 8000

function globals.unpack(...)
    local list, first, last = ...
    if (first or last) and type(list) == 'table' then
        first, last = tonumber(first or 1), tonumber(last or #list)
        if first and last and not (last - first < RESULTS_MOST) then
            error('too many results to unpack', 2)
        end
    end
    return unpack(...)
end

function table.remove(...)
    local table, place = ...
    if behind[table] then
        return
    end
    if place ~= nil and type(table) == 'table' and #table - (tonumber(place) or 0) > SHORT_MOST then
        tick()
    end
    return remove(...)
end

local function less(one, other)
    return one < other
end

function table.sort(...)
    local table, comes_before = ...
    if behind[table] then
        return
    end
    if type(table) ~= 'table' or #table <= SHORT_MOST then
        return sort(...)
    end
    -- C compares without an instruction of Lua, after each of which the script may rest.
    if type(comes_before) == 'function' then
        return sort(table, function(one, other)
            return (comes_before(one, other))
        end)
    elseif comes_before ~= nil then
        return sort(...)
    end
    local ok, e = call_protected(sort, table, less)
    if not ok then
        error(seen(e), 0)
    end
end

-- A list is joined in parts, between which the host is asked.
function table.concat(...)
    local list, separator, first, last = ...
    if type(list) ~= 'table' or #list <= SHORT_MOST or first ~= nil or last ~= nil then
        return concat(...)
    end
    local parts, length = {}, #list
    for at = 1, length, SHORT_MOST do
        tick()
        local to = at + SHORT_MOST - 1
        parts[#parts + 1] = concat(list, separator, at, to < length and to or length)
    end
    return concat(parts, separator)
end

-- Strings ----------------------------------------------------------------------------------------------------------------

-- Bytes of a text that functions of C go through in one go, and of a piece that is repeated.
local TEXT_MOST = 100000
local PIECE = 1000
-- Counts from this on overflow in C.
local COUNT_MOST = 2147483648

-- An empty string repeated is a loop without an allocation, which no limit ends. C repeats a short one slowly: pieces are made of
-- it first, and the host is asked.
function string.rep(...)
    local text, count = ...
    if text == '' then
        return ''
    end
    local times = type(text) == 'string' and tonumber(count) or 0
    if times > 1 and #text * times > TEXT_MOST and times < COUNT_MOST then
        tick()
        if #text < PIECE then
            local whole = floor(times / PIECE)
            return rep(rep(text, PIECE), whole) .. rep(text, floor(times) - whole * PIECE)
        end
    end
    return rep(...)
end

local function is_long_text(text)
    return type(text) == 'string' and #text > TEXT_MOST
end

-- What a function of C makes of a long text, part by part.
local function in_parts(change, text)
    local parts = {}
    for at = 1, #text, TEXT_MOST do
        tick()
        parts[#parts + 1] = change(sub(text, at, at + TEXT_MOST - 1))
    end
    return parts
end

function string.upper(...)
    if is_long_text((...)) then
        return concat(in_parts(upper, (...)))
    end
    return upper(...)
end

function string.lower(...)
    if is_long_text((...)) then
        return concat(in_parts(lower, (...)))
    end
    return lower(...)
end

function string.reverse(...)
    if not is_long_text((...)) then
        return reverse(...)
    end
    local parts = in_parts(reverse, (...))
    local count = #parts
    for at = 1, floor(count / 2) do
        parts[at], parts[count + 1 - at] = parts[count + 1 - at], parts[at]
    end
    return concat(parts)
end

-- Matching recurses once for each of these letters in the pattern, in C, without a bound of its own.
local SPECIAL_MOST = 1000

-- A pattern with n quantifiers may look at a subject of m bytes m^(n+1) times, and nothing ends C meanwhile. Where that is more
-- than some ten thousand, `scan` matches, which asks the host at times whether the script goes on. Without any it looks at most
-- at the subject's bytes times the pattern's: `seek` finds a plain text.
local LENGTH_MOST = { 200, 34, 14, 8, 5 }
local PRODUCT_MOST = 1000000
local PATTERN_MOST = 100
local KNOWN_MOST = 1000
local known, known_count = {}, 0

-- How many quantifiers a pattern has, and other parts that look ahead; -1 if it is plain text. C looks no further than the first
-- zero byte.
local function quantifiers(pattern)
    pattern = match(pattern, '^%Z*')
    if not find(pattern, '[%^%$%*%+%?%.%(%[%%%-]') then
        return -1
    end
    local rest = gsub(pattern, '%%%p', '')
    local _, repeated = gsub(rest, '[*+?-]', '')
    local _, ahead = gsub(rest, '%%[%db]', '')
    return repeated + ahead
end

-- Whether C would take long for a subject, and for a pattern with this many quantifiers.
local function takes_long(subject, pattern, count)
    if count > 0 then
        return #subject > (LENGTH_MOST[count] or 0)
    end
    return #subject > TEXT_MOST or #subject * #pattern > PRODUCT_MOST
end

-- Whether C would take long, and whether the pattern is plain text.
local function is_long(subject, pattern)
    if type(subject) ~= 'string' or type(pattern) ~= 'string' then
        return false
    end
    local count = known[pattern]
    if not count then
        if #pattern > PATTERN_MOST then
            local letters, nested = specials(pattern)
            if nested > SPECIAL_MOST then
                error('pattern too complex', 3)
            end
            return letters > 0 or takes_long(subject, pattern, 0), letters == 0
        end
        if known_count >= KNOWN_MOST then
            known, known_count = {}, 0
        end
        count = quantifiers(pattern)
        known[pattern], known_count = count, known_count + 1
    end
    return takes_long(subject, pattern, count), count < 0
end

-- The first byte to look at, as C makes it of `init`.
local function start(length, init)
    local at = tonumber(init) or 1
    at = at >= 0 and floor(at) or ceil(at)
    if at < 0 then
        at = at + length + 1
    end
    if not (at >= 1) then
        return 1
    end
    return at > length and length + 1 or at
end

-- A match at a byte or behind it. As a pattern, a plain text ends at its first zero byte.
local function look(is_plain, subject, pattern, at, literal_caret)
    if is_plain then
        return seek(subject, pattern, at, true)
    end
    return scan(subject, pattern, at, literal_caret)
end

-- The captures of a match, or all of it if there are none.
local function captured(subject, first, last, ...)
    if first and select('#', ...) == 0 then
        return sub(subject, first, last)
    end
    return ...
end

-- Nil where there is nothing.
local function found(first, ...)
    return first, ...
end

function string.find(...)
    local subject, pattern, init, plain = ...
    if type(subject) ~= 'string' or type(pattern) ~= 'string' then
        return find(...)
    end
    local long, is_plain
    if plain then
        long, is_plain = takes_long(subject, pattern, 0), true
    else
        long, is_plain = is_long(subject, pattern)
    end
    if not long then
        return find(...)
    end
    find('', '', init)
    return found((is_plain and seek or scan)(subject, pattern, start(#subject, init)))
end

function string.match(...)
    local subject, pattern, init = ...
    local long, is_plain = is_long(subject, pattern)
    if long then
        match('', '', init)
        return found(captured(subject, look(is_plain, subject, pattern, start(#subject, init))))
    end
    return match(...)
end

function string.gmatch(...)
    local subject, pattern = ...
    local long, is_plain = is_long(subject, pattern)
    if not long then
        return gmatch(...)
    end
    local at = 1
    local function next_match(first, last, ...)
        if not first then
            at = #subject + 2
            return nil
        end
        at = last >= first and last + 1 or first + 1
        return captured(subject, first, last, ...)
    end
    return function()
        if at > #subject + 1 then
            return nil
        end
        return next_match(look(is_plain, subject, pattern, at, true))
    end
end

-- What stands in place of a match: the replacement with its captures.
local function expanded(template, subject, first, last, ...)
    if not string.find(template, '%', 1, true) then
        return template
    end
    local captures, count = { ... }, select('#', ...)
    return (string.gsub(template, '%%(.?)', function(letter)
        local number = find(letter, '^%d') and tonumber(letter)
        if number == 0 or number == 1 and count == 0 then
            return sub(subject, first, last)
        elseif not number then
            return letter == '' and '\0' or letter
        elseif number > count then
            error('invalid capture index')
        end
        return captures[number]
    end))
end

local function replacement(subject, by, first, last, ...)
    if not first then
        return nil
    end
    local value
    if type(by) == 'function' then
        value = by(captured(subject, first, last, ...))
    elseif type(by) == 'table' then
        value = by[captured(subject, first, last, ...)]
    else
        value = expanded(by, subject, first, last, ...)
    end
    if not value then
        value = sub(subject, first, last)
    elseif type(value) ~= 'string' and type(value) ~= 'number' then
        error('invalid replacement value (a ' .. type(value) .. ')')
    end
    return first, last, value
end

local CARET = 94

function string.gsub(...)
    local subject, pattern, by, most = ...
    local long, is_plain = is_long(subject, pattern)
    if not long and not (is_long_text(by) and type(subject) == 'string' and type(pattern) == 'string') then
        return gsub(...)
    end
    gsub('', '', '', most)
    gsub('', '', by, 0)
    if type(by) == 'number' then
        by = tostring(by)
    end
    most = tonumber(most) or #subject + 1
    local pieces, count, at = {}, 0, 1
    while count < most do
        local first, last, value = replacement(subject, by, look(is_plain, subject, pattern, at))
        if not first then
            break
        end
        count = count + 1
        pieces[#pieces + 1] = sub(subject, at, first - 1)
        pieces[#pieces + 1] = value
        at = last + 1
        if last < first then
            if first > #subject then
                break
            end
            pieces[#pieces + 1] = sub(subject, first, first)
            at = first + 1
        end
        if byte(pattern) == CARET then
            break
        end
    end
    pieces[#pieces + 1] = sub(subject, at)
    return concat(pieces), count
end

string.gfind = string.gmatch

-- Numbers ----------------------------------------------------------------------------------------------------------------

-- The int that C makes of a number.
local function int(n)
    n = n >= 0 and floor(n) or ceil(n)
    if not (n > -2 ^ 63 and n < 2 ^ 63) then
        return 0
    end
    n = n % 2 ^ 32
    return n < 2 ^ 31 and n or n - 2 ^ 32
end

-- C's own numbers are shared by all threads of the process; these are redis-server's. `max` complains of what is no number.
function math.random(...)
    local drawn, random, count = draw(), max, select('#', ...)
    if count == 0 then
        return drawn
    elseif count > 2 then
        error('wrong number of arguments', 2)
    end
    random(...)
    local first, last = ...
    first, last = int(tonumber(first)), int(tonumber(last or 0))
    if count == 1 then
        first, last = 1, first
    end
    if first > last then
        error("bad argument #" .. count .. " to 'random' (interval is empty)", 2)
    end
    return floor(drawn * int(last - first + 1)) + first
end

function math.randomseed(...)
    local randomseed = max
    if select('#', ...) == 0 then
        randomseed()
    end
    randomseed((...))
    seed(int(tonumber((...))))
end

-- Code -------------------------------------------------------------------------------------------------------------------

local compile = native.compile

function globals.loadstring(...)
    local text, name = ...
    if type(text) == 'number' then
        text = tostring(text)
    elseif type(text) ~= 'string' then
        local got = select('#', ...) == 0 and 'no value' or type(text)
        error("bad argument #1 to 'loadstring' (string expected, got " .. got .. ')', 2)
    end
    return compile(text, name == nil and text or name)
end

-- All pieces are read before the first is parsed: nothing of the script runs while its code is compiled.
local function read(reader)
    local pieces = {}
    while true do
        local piece = reader()
        if piece == nil or piece == '' then
            return concat(pieces)
        end
        if type(piece) ~= 'string' and type(piece) ~= 'number' then
            error('reader function must return a string', 0)
        end
        pieces[#pieces + 1] = piece
    end
end

function globals.load(...)
    local reader, name = ...
    if type(reader) ~= 'function' then
        local got = select('#', ...) == 0 and 'no value' or type(reader)
        error("bad argument #1 to 'load' (function expected, got " .. got .. ')', 2)
    end
    local ok, text = resumed(call_protected(read, reader))
    if not ok then
        return nil, text
    end
    return compile(text, name == nil and '=(load)' or name)
end

-- The collector's settings outlive a script, so scripts may ask, and run it, but not change them.
local collectgarbage = collectgarbage
local KEPT = { stop = 0, restart = 0, setpause = 200, setstepmul = 200 }

-- C reads an option up to its first zero byte, so that is what is looked up.
function globals.collectgarbage(...)
    local option = ...
    local kept = KEPT[type(option) == 'string' and match(option, '^%Z*') or option]
    if kept then
        return kept
    end
    -- To collect takes no instructions.
    tick()
    return collectgarbage(...)
end

-- The globals ------------------------------------------------------------------------------------------------------------

-- What scripts see as _G, and the two tables behind it.
local seen, about_seen, globals_of_libraries

-- Hides all of this behind stand-ins; `libraries` are the tables that come from Rust. `loading` is the table `redis` of a
-- library that is being loaded, which sees nothing else.
local function seal(libraries, loading)
    for _, name in ipairs({ 'coroutine', 'math', 'string', 'table' }) do
        libraries[name] = globals[name]
    end
    libraries.os = { clock = os.clock }
    for name, library in pairs(libraries) do
        globals[name] = stand_in(library)
    end
    local of_strings = getmetatable('')
    of_strings.__metatable = stand_in({ __index = globals.string })
    local of_globals = { __index = missing }
    setmetatable(globals, of_globals)
    seen, about_seen = stand_in(globals, (stand_in({ __index = missing })), visible)
    globals._G = seen
    local redis = stand_in(setmetatable(loading, of_globals))
    globals_of_libraries = setmetatable({ redis = redis }, of_globals)
end

-- Runs -------------------------------------------------------------------------------------------------------------------

-- Scripts, and functions of libraries, by their numbers.
local chunks = {}

-- Runs the code of a library.
local function load(id)
    return xpcall(chunks[id], ended)
end

-- While a library is loaded, it and what it calls see little.
local function loading(on)
    local visible = on and globals_of_libraries or globals
    about_seen.__index, behind[seen] = visible, visible
end

local function keep(id, chunk)
    chunks[id] = chunk
end

return seal, load, keep, loading, chunks
