// Every operation of spymemcached with its text connection, with the answer it must give:
// java -cp spymemcached.jar Spymemcached.java HOST PORT. Exit status 1 and a line on standard error at the first wrong
// answer.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

public class Spymemcached {
    static int checks = 0;

    static void expect(Object actual, Object wanted, String what) {
        checks++;
        if (!Objects.equals(actual, wanted)) {
            System.err.println(what + ": expected " + wanted + ", got " + actual);
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        MemcachedClient client = new MemcachedClient(
            new DefaultConnectionFactory(), AddrUtil.getAddresses(arguments[0] + ":" + arguments[1]));
        try {
            expect(client.flush().get(), true, "flush");
            storeAndGet(client);
            conditions(client);
            countAndTouch(client);
            administration(client);
        } finally {
            client.shutdown(2, TimeUnit.SECONDS);
        }
        System.out.println(checks + " checks");
        System.exit(0);
    }

    static void storeAndGet(MemcachedClient client) throws Exception {
        expect(client.set("text", 0, "hello").get(), true, "set");
        expect(client.get("text"), "hello", "get");
        expect(client.asyncGet("text").get(), "hello", "asyncGet");
        expect(client.get("absent"), null, "get of an absent key");
        String big = "compressible ".repeat(5000);
        expect(client.set("big", 100, big).get(), true, "set, compressed by the client");
        expect(client.get("big"), big, "get, decompressed by the client");
        expect(client.set("list", 0, new ArrayList<>(List.of(1, 2, 3))).get(), true, "set of an object");
        expect(client.get("list"), List.of(1, 2, 3), "get of an object");
        Map<String, Object> many = new HashMap<>();
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 400; i++) {
            keys.add("m" + i);
            if (i < 300) {
                many.put("m" + i, "x" + i);
                client.set("m" + i, 0, "x" + i);
            }
        }
        expect(client.getBulk(keys), many, "getBulk");
        expect(client.asyncGetBulk(keys).get(), many, "asyncGetBulk");
    }

    static void conditions(MemcachedClient client) throws Exception {
        CASValue<Object> entry = client.gets("text");
        expect(entry.getValue(), "hello", "gets");
        expect(client.asyncGets("text").get().getCas(), entry.getCas(), "asyncGets");
        expect(client.cas("text", entry.getCas(), "world"), CASResponse.OK, "cas with the right unique");
        expect(client.cas("text", entry.getCas(), "moon"), CASResponse.EXISTS, "cas with a stale unique");
        expect(client.cas("absent", entry.getCas(), "moon"), CASResponse.NOT_FOUND, "cas of an absent key");
        expect(client.asyncCAS("text", client.gets("text").getCas(), "sun").get(), CASResponse.OK, "asyncCAS");
        expect(client.add("text", 0, "no").get(), false, "add of a present key");
        expect(client.add("added", 0, "yes").get(), true, "add of an absent key");
        expect(client.replace("absent", 0, "no").get(), false, "replace of an absent key");
        expect(client.replace("added", 0, "yes2").get(), true, "replace of a present key");
        client.set("log", 0, "two").get();
        expect(client.append("log", ",three").get(), true, "append");
        expect(client.prepend("log", "one,").get(), true, "prepend");
        expect(client.get("log"), "one,two,three", "get after append and prepend");
        expect(client.append("absent", "x").get(), false, "append to an absent key");
        expect(client.delete("log").get(), true, "delete");
        expect(client.delete("log").get(), false, "second delete");
    }

    static void countAndTouch(MemcachedClient client) throws Exception {
        client.set("n", 0, "10").get();
        expect(client.incr("n", 5), 15L, "incr");
        expect(client.decr("n", 20), 0L, "decr below zero");
        expect(client.incr("absent", 1), -1L, "incr of an absent key");
        expect(client.incr("counter", 1, 7L), 7L, "incr with a first value");
        expect(client.incr("counter", 1, 7L), 8L, "incr of what has a value");
        expect(client.asyncIncr("counter", 2).get(), 10L, "asyncIncr");
        expect(client.asyncDecr("counter", 3).get(), 7L, "asyncDecr");
        expect(client.touch("n", 100).get(), true, "touch");
        expect(client.touch("absent", 100).get(), false, "touch of an absent key");
        expect(client.set("gone", -1, "x").get(), true, "set that expires at once");
        expect(client.get("gone"), null, "get of an expired entry");
    }

    static void administration(MemcachedClient client) throws Exception {
        expect(client.getVersions().values().iterator().next().startsWith("1.6."), true, "getVersions");
        Map<String, String> stats = client.getStats().values().iterator().next();
        expect(stats.containsKey("curr_items") && stats.containsKey("pid"), true, "getStats");
        expect(client.getStats("settings").size(), 1, "getStats of a group");
        expect(client.flush().get(), true, "flush");
        expect(client.getBulk("text", "added", "m5"), Map.of(), "getBulk after flush");
    }
}
