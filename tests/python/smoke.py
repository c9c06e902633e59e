"""redis-py against a server: basic use of each group. Arguments: port, protocol (2 or 3). VARVE_TLS is a folder with ca.crt,
client.crt and client.key, by which it speaks TLS."""

import os
import sys
import time

import redis


def strings(r):
    assert r.set("k", "v") is True
    assert r.get("k") == "v"
    assert r.set("k", "w", nx=True) is None
    assert r.set("k", "w", xx=True, get=True) == "v"
    assert r.mset({"a": 1, "b": 2}) is True
    assert r.mget("a", "b", "nothing") == ["1", "2", None]
    assert r.msetnx({"a": 5, "c": 6}) in (False, 0)
    assert r.incr("a") == 2 and r.decrby("a", 5) == -3
    assert abs(r.incrbyfloat("f", 0.5) - 0.5) < 1e-9
    assert r.append("k", "xyz") == 4 and r.strlen("k") == 4
    assert r.getrange("k", 1, 2) == "xy"
    assert r.setrange("k", 1, "Q") == 4 and r.get("k") == "wQyz"
    assert r.getset("k", "n") == "wQyz" and r.getdel("k") == "n"
    r.mset({"l1": "ohmytext", "l2": "mynewtext"})
    assert r.lcs("l1", "l2") == "mytext"
    assert r.lcs("l1", "l2", len=True) == 6


def expiry(r):
    assert r.setex("e", 100, "v") is True and 98 <= r.ttl("e") <= 100
    assert r.psetex("e", 5000, "v") is True and 4000 <= r.pttl("e") <= 5000
    assert r.expire("e", 1000, gt=True) and not r.expire("e", 10, gt=True)
    assert r.expiretime("e") >= int(time.time()) + 990
    assert r.getex("e", persist=True) == "v" and r.ttl("e") == -1 and r.ttl("nothing") == -2
    r.set("short", "v", px=50)
    time.sleep(0.2)
    assert r.get("short") is None and r.exists("short") == 0


def generic(r):
    r.flushdb()
    r.mset({f"g{i}": i for i in range(1000)})
    assert r.dbsize() == 1000
    assert sorted(r.scan_iter(match="g99*")) == sorted(["g99"] + [f"g99{i}" for i in range(10)])
    assert len(set(r.scan_iter(count=50))) == 1000
    assert len(r.keys("g1*")) == 111
    assert r.randomkey().startswith("g")
    assert r.rename("g1", "h1") is True and r.exists("g1", "h1") == 1
    assert r.copy("h1", "h2") in (True, 1) and r.get("h2") == "1"
    assert r.type("h1") == "string" and r.object("encoding", "h1") == "int"
    assert r.touch("h1", "h2") == 2 and r.unlink("h2") == 1 and r.delete("h1", "nothing") == 1
    assert r.move("g2", 5) in (True, 1) and r.get("g2") is None
    try:
        r.rename("nothing", "x")
        raise AssertionError("RENAME of nothing")
    except redis.ResponseError as error:
        assert "no such key" in str(error)


def connection(r, protocol):
    assert r.ping() is True and r.echo("hello") == "hello"
    assert r.client_setname("smoke") is True and r.client_getname() == "smoke"
    assert any(c["name"] == "smoke" for c in r.client_list())
    assert r.client_id() > 0
    hello = r.execute_command("HELLO", protocol)
    fields = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2]))
    fields = {(k.decode() if isinstance(k, bytes) else k): v for k, v in fields.items()}
    assert int(fields["proto"]) == protocol, fields


def server(r):
    info = r.info()
    assert info["redis_version"] == "7.0.15" and "used_memory" in info
    assert r.config_get("databases")["databases"] == "16"
    assert r.config_set("slowlog-max-len", 200) is True
    assert r.config_get("slowlog-max-len")["slowlog-max-len"] == "200"
    assert r.memory_usage("nothing") is None
    assert abs(r.time()[0] - time.time()) < 5
    assert r.command_count() > 50
    assert r.slowlog_reset() in (True, "OK") and r.swapdb(0, 1) is True and r.swapdb(0, 1) is True
    assert r.flushall() is True and r.dbsize() == 0


def pipelines(r):
    with r.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"p{i}", i)
        for i in range(1000):
            pipe.get(f"p{i}")
        replies = pipe.execute()
    assert replies[:1000] == [True] * 1000 and replies[1000:] == [str(i) for i in range(1000)]
    big = "x" * 2_000_000
    assert r.set("big", big) is True and r.get("big") == big


def main():
    port, protocol = int(sys.argv[1]), int(sys.argv[2])
    options = {}
    folder = os.environ.get("VARVE_TLS")
    if folder:
        files = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}
        options = {"ssl": True} | {name: os.path.join(folder, file) for name, file in files.items()}
    r = redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True, **options)
    strings(r)
    expiry(r)
    generic(r)
    connection(r, protocol)
    server(r)
    pipelines(r)
    print("ok")


main()
