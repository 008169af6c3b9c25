"""Every operation of the newest pymemcache, aiomcache and meta-memcache: pypi_clients.py CLIENT HOST PORT.

Runs in a virtual environment that holds the three. Exit status 1 and a line on standard error at the first wrong
answer.
"""

import asyncio
import socket
import sys
import time

checks = 0


def expect(actual, wanted, what):
    global checks
    checks += 1
    if actual != wanted:
        sys.exit(f"{what}: expected {wanted!r:.200}, got {actual!r:.200}")


def expect_refused(call, what):
    try:
        call()
    except Exception:
        return
    expect("no error", "an error", what)


def pymemcache(host, port):
    from pymemcache.client.base import PooledClient
    from pymemcache.client.hash import HashClient
    from pymemcache import serde

    client = PooledClient((host, port), timeout=5, connect_timeout=5, default_noreply=False, serde=serde.pickle_serde)
    expect(client.flush_all(), True, "flush_all")
    expect(client.set("k1", {"a": [1, 2.5]}, expire=100), True, "set of an object")
    expect(client.get("k1"), {"a": [1, 2.5]}, "get of an object")
    expect(client.get("absent", "default"), "default", "get of an absent key")
    many = {f"m{i}": i for i in range(300)}
    expect(client.set_many(many), [], "keys that set_many failed on")
    expect(client.get_many([f"m{i}" for i in range(400)]), many, "get_many")
    value, unique = client.gets("k1")
    expect(client.cas("k1", "w1", unique), True, "cas with the right unique")
    expect(client.cas("k1", "w2", unique), False, "cas with a stale unique")
    expect(client.cas("absent", "w2", unique), None, "cas of an absent key")
    expect(sorted(client.gets_many(["k1", "m1", "absent"])), ["k1", "m1"], "gets_many")
    expect(client.add("k1", "no"), False, "add of a present key")
    expect(client.add("k3", "yes"), True, "add of an absent key")
    expect(client.replace("k9", "no"), False, "replace of an absent key")
    expect(client.replace("k3", "yes2"), True, "replace of a present key")
    expect(client.append("k3", "+"), True, "append")
    expect(client.prepend("k3", "-"), True, "prepend")
    client.set("n", 10)
    expect(client.incr("n", 5), 15, "incr")
    expect(client.decr("n", 20), 0, "decr below zero")
    expect(client.incr("absent", 1), None, "incr of an absent key")
    expect_refused(lambda: client.incr("k3", 1), "incr of a text")
    expect(client.touch("k1", 100), True, "touch")
    expect(client.touch("absent", 100), False, "touch of an absent key")
    expect(client.delete("k1"), True, "delete")
    expect(client.delete("k1"), False, "second delete")
    expect(client.delete_many(["m1", "m2"]), True, "delete_many")
    client["item"] = "x"
    expect(client["item"], "x", "item access")
    del client["item"]
    expect(client.raw_command(b"mg m3 s v"), b"VA 1 s1", "raw_command")
    client.close()
    expect(b"curr_items" in client.stats(), True, "stats")
    expect(client.stats("settings")[b"verbosity"] is not None, True, "stats of a group")
    expect(client.version().startswith(b"1.6."), True, "version")
    client.close()
    ring = HashClient([(host, port)], timeout=5, ignore_exc=False)
    expect(ring.set_many({"h1": b"1", "h2": b"2"}, noreply=False), [], "keys that HashClient's set_many failed on")
    expect(ring.get_many(["h1", "h2", "h3"]), {"h1": b"1", "h2": b"2"}, "HashClient's get_many")
    ring.close()
    expect(client.flush_all(), True, "flush_all")
    expect(client.get_many(["k3", "n", "m5"]), {}, "get_many after flush_all")
    client.quit()


def aiomcache(host, port):
    asyncio.run(aiomcache_session(host, port))


async def aiomcache_session(host, port):
    import aiomcache as library

    client = library.Client(host, port, pool_size=4)
    await client.flush_all()
    expect(await client.set(b"k1", b"\x00\r\n" * 100000, exptime=100), True, "set")
    expect(await client.get(b"k1"), b"\x00\r\n" * 100000, "get")
    expect(await client.get(b"absent", b"default"), b"default", "get of an absent key")
    sets = await asyncio.gather(*(client.set(b"m%d" % i, b"x%d" % i) for i in range(300)))
    expect(all(sets), True, "sets at the same time")
    values = await client.multi_get(*(b"m%d" % i for i in range(400)))
    expect(values, tuple([b"x%d" % i for i in range(300)] + [None] * 100), "multi_get")
    value, unique = await client.gets(b"m1")
    expect(value, b"x1", "gets")
    expect(await client.cas(b"m1", b"w1", unique), True, "cas with the right unique")
    expect(await client.cas(b"m1", b"w2", unique), False, "cas with a stale unique")
    expect(await client.add(b"m1", b"no"), False, "add of a present key")
    expect(await client.add(b"k3", b"yes"), True, "add of an absent key")
    expect(await client.replace(b"k9", b"no"), False, "replace of an absent key")
    expect(await client.replace(b"k3", b"yes"), True, "replace of a present key")
    expect(await client.append(b"k3", b"+"), True, "append")
    expect(await client.prepend(b"k3", b"-"), True, "prepend")
    expect(await client.get(b"k3"), b"-yes+", "get after append and prepend")
    await client.set(b"n", b"10")
    expect(await client.incr(b"n", 5), 15, "incr")
    expect(await client.decr(b"n", 20), 0, "decr below zero")
    try:
        await client.incr(b"absent")
        expect("no error", "an error", "incr of an absent key")
    except library.ClientException:
        pass
    expect(await client.touch(b"k1", 100), True, "touch")
    expect(await client.touch(b"absent", 100), False, "touch of an absent key")
    expect(await client.delete(b"k1"), True, "delete")
    expect(await client.delete(b"k1"), False, "second delete")
    expect(b"curr_items" in await client.stats(), True, "stats")
    expect((await client.version()).startswith(b"1.6."), True, "version")
    await client.flush_all()
    expect(await client.get(b"m5"), None, "get after flush_all")
    await client.close()


def meta_memcache(host, port):
    from meta_memcache import CacheClient, Key, ServerAddress, connection_pool_factory_builder
    from meta_memcache.configuration import LeasePolicy, RecachePolicy, StalePolicy
    from meta_memcache.protocol import MA_MODE_DEC, Miss, RequestFlags, SetMode, Success, Value

    client = CacheClient.cache_client_from_servers(
        servers=[ServerAddress(host, port)],
        connection_pool_factory_fn=connection_pool_factory_builder(recv_timeout=5, connection_timeout=5),
    )
    expect(client.set("k1", {"a": [1, 2.5]}, ttl=100), True, "set of an object")
    expect(client.get("k1"), {"a": [1, 2.5]}, "get of an object")
    expect(client.get("absent"), None, "get of an absent key")
    expect(client.set(Key("\U0001f37a"), "beer", ttl=100), True, "set with a key sent as base64")
    expect(client.get(Key("\U0001f37a")), "beer", "get with a key sent as base64")
    expect(client.set("long" * 200, "x", ttl=100), True, "set with a key over 250 bytes, hashed by the client")
    expect(client.get("long" * 200), "x", "get with a key over 250 bytes")
    for i in range(300):
        client.set(f"m{i}", i, ttl=100, no_reply=True)
    found = client.multi_get([f"m{i}" for i in range(400)])
    found = {getattr(key, "key", key): value for key, value in found.items()}
    expect(found, {f"m{i}": i if i < 300 else None for i in range(400)}, "multi_get")
    expect(client.get_cas("k1")[0], {"a": [1, 2.5]}, "get_cas")
    expect(client.multi_get_cas(["k1", "absent"]) is not None, True, "multi_get_cas")
    # The C part of this client holds uniques in 32 bits and silently drops larger ones, with the condition: see
    # docs/COMPATIBILITY.md. So the entry gets a small one first.
    with socket.create_connection((host, port), timeout=5) as plain:
        plain.sendall(b"ms k1 2 F0 E42\r\nv1\r\n")
        expect(plain.recv(100), b"HD\r\n", "ms with a unique of 42")
    expect(client.get_cas("k1"), ("v1", 42), "get_cas with a small unique")
    expect(client.set("k1", "w1", ttl=100, cas_token=42), True, "set with the right unique")
    expect(client.set("k1", "w2", ttl=100, cas_token=42), False, "set with a stale unique")
    expect(client.delete("k1", cas_token=42), False, "delete with a stale unique")
    expect(client.get_typed("k1", str), "w1", "get_typed")
    expect(client.set("k1", "no", ttl=100, set_mode=SetMode.ADD), False, "add of a present key")
    expect(client.set("k3", "yes", ttl=100, set_mode=SetMode.ADD), True, "add of an absent key")
    expect(client.refill("k3", "no", ttl=100), False, "refill of a present key")
    expect(client.set("k9", "x", ttl=100, set_mode=SetMode.REPLACE), False, "replace of an absent key")
    expect(client.set("k3", "+", ttl=100, set_mode=SetMode.APPEND), True, "append")
    expect(client.set("k3", "-", ttl=100, set_mode=SetMode.PREPEND), True, "prepend")
    expect(client.get("k3"), "-yes+", "get after append and prepend")
    expect(client.get("k3", touch_ttl=500), "-yes+", "get with touch")
    expect(client.touch("k3", ttl=200), True, "touch")
    expect(client.touch("absent", ttl=200), False, "touch of an absent key")
    expect(client.delta_initialize("n", delta=1, initial_value=10, initial_ttl=100), True, "delta_initialize")
    expect(client.delta("n", delta=5), True, "delta")
    expect(client.delta_and_get("n", delta=5), 20, "delta_and_get")
    expect(client.delta_and_get("n", delta=-50), 0, "delta_and_get below zero")
    expect(client.delta_initialize_and_get("n2", 1, initial_value=7, initial_ttl=100), 7, "delta_initialize_and_get")
    expect(client.delta_and_get("absent", delta=1), None, "delta of an absent key")
    expect(client.delete("k3"), True, "delete")
    expect(client.delete("k3"), False, "second delete")
    expect(client.invalidate("k3"), True, "invalidate of an absent key")

    lease = LeasePolicy(ttl=30, miss_retries=1)
    expect(client.get_or_lease("leased", lease, lease_wait_fn=lambda _: None), None, "get_or_lease wins the lease")
    value, unique = client.get_or_lease_cas("leased", lease, lease_wait_fn=lambda _: None)
    expect(value, None, "get_or_lease_cas waits, gives up")
    expect(client.set("leased", "done", ttl=100), True, "set by the holder of the lease")
    expect(client.get_or_lease("leased", lease), "done", "get_or_lease of a present key")
    expect(client.get("leased", recache_policy=RecachePolicy(ttl=1000)), None, "get wins the recache")
    expect(client.get("leased", recache_policy=RecachePolicy(ttl=1000)), "done", "get while another recaches")
    stale = StalePolicy(mark_stale_on_deletion_ttl=60)
    expect(client.delete("leased", stale_policy=stale), True, "delete that marks stale")
    expect(client.get("leased"), None, "get of a stale entry wins the recache")
    expect(client.get("leased"), "done", "get of a stale entry while another recaches")

    key = Key("raw")
    result = client.meta_set(key, b"12345", RequestFlags(cache_ttl=100, return_cas_token=True, opaque=b"o1"))
    expect(isinstance(result, Success) and result.flags.opaque, b"o1", "meta_set with an opaque")
    flags = RequestFlags(
        return_value=True, return_ttl=True, return_client_flag=True, return_last_access=True, return_size=True,
        return_fetched=True, return_cas_token=True, return_key=True, no_update_lru=True, opaque=b"o2",
    )
    result = client.meta_get(key, flags)
    expect(isinstance(result, Value) and result.value, b"12345", "meta_get")
    expect((result.flags.size, result.flags.opaque), (5, b"o2"), "flags of meta_get")
    expect(0 < result.flags.ttl <= 100, True, "ttl of meta_get")
    expect(len(client.meta_multiget([key, Key("m1")], flags)), 2, "meta_multiget")
    expect(isinstance(client.meta_set(key, b"7", RequestFlags(cache_ttl=0)), Success), True, "meta_set of a number")
    result = client.meta_arithmetic(key, RequestFlags(return_value=True, mode=MA_MODE_DEC, ma_delta_value=3))
    expect(int(result.value), 4, "meta_arithmetic")
    expect(isinstance(client.meta_delete(key), Success), True, "meta_delete")
    expect(isinstance(client.meta_get(key, flags), Miss), True, "meta_get after meta_delete")
    expect(client.set("short", "x", ttl=1), True, "set with a TTL of 1 s")
    deadline = time.monotonic() + 5
    while client.get("short") is not None:
        expect(time.monotonic() < deadline, True, "a TTL of 1 s ends within 5 s")
        time.sleep(0.05)


if __name__ == "__main__":
    name, host, port = sys.argv[1:]
    {"pymemcache": pymemcache, "aiomcache": aiomcache, "meta-memcache": meta_memcache}[name](host, int(port))
    print(checks, "checks")
