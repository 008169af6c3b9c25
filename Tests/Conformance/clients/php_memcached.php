<?php
// Every operation of PHP's Memcached class in text mode, with the answer it must give: php php_memcached.php HOST PORT.
// Exit status 1 and a line on standard error at the first wrong answer.

$checks = 0;

function expect($actual, $wanted, string $what): void
{
    global $checks;
    $checks++;
    if ($actual !== $wanted) {
        fwrite(STDERR, "$what: expected " . var_export($wanted, true) . ", got " . var_export($actual, true) . "\n");
        exit(1);
    }
}

function expectCode(int $code, string $what): void
{
    global $client;
    expect($client->getResultCode(), $code, "result code of $what");
}

$client = new Memcached();
$client->setOption(Memcached::OPT_BINARY_PROTOCOL, false);
$client->setOption(Memcached::OPT_TCP_NODELAY, true);
$client->addServer($argv[1], (int) $argv[2]);
expect($client->flush(), true, "flush");

expect($client->set("text", "hello"), true, "set");
expect($client->get("text"), "hello", "get");
$object = ["a" => 1, "b" => [2.5, "x", true, null], "long" => str_repeat("compressible ", 5000)];
expect($client->set("object", $object, 100), true, "set of an array, compressed by the client");
expect($client->get("object"), $object, "get of an array");
expect($client->set("number", 42), true, "set of an integer");
expect($client->get("number"), 42, "get of an integer");
expect($client->setByKey("group", "bykey", "v"), true, "setByKey");
expect($client->getByKey("group", "bykey"), "v", "getByKey");
expect($client->get("absent"), false, "get of an absent key");
expectCode(Memcached::RES_NOTFOUND, "get of an absent key");

$many = [];
for ($i = 0; $i < 300; $i++) {
    $many["m$i"] = "x$i";
}
expect($client->setMulti($many), true, "setMulti");
$keys = array_map(fn($i) => "m$i", range(0, 399));
expect($client->getMulti($keys, Memcached::GET_PRESERVE_ORDER)["m299"], "x299", "getMulti in order");
expect($client->getMulti($keys), $many, "getMulti");
expect($client->getDelayed($keys, true), true, "getDelayed");
expect(count($client->fetchAll()), 300, "fetchAll");
expect($client->getMultiByKey("group", ["bykey"]), ["bykey" => "v"], "getMultiByKey");

$entry = $client->get("text", null, Memcached::GET_EXTENDED);
expect($entry["value"], "hello", "get with the unique");
expect($client->cas($entry["cas"], "text", "world"), true, "cas with the right unique");
expect($client->cas($entry["cas"], "text", "moon"), false, "cas with a stale unique");
expectCode(Memcached::RES_DATA_EXISTS, "cas with a stale unique");
expect($client->cas($entry["cas"], "absent", "moon"), false, "cas of an absent key");
expectCode(Memcached::RES_NOTFOUND, "cas of an absent key");

expect($client->add("text", "no"), false, "add of a present key");
expectCode(Memcached::RES_NOTSTORED, "add of a present key");
expect($client->add("added", "yes"), true, "add of an absent key");
expect($client->replace("absent", "no"), false, "replace of an absent key");
expect($client->replace("added", "yes2"), true, "replace of a present key");
$client->setOption(Memcached::OPT_COMPRESSION, false);
expect($client->set("log", "two"), true, "set without compression");
expect($client->append("log", ",three"), true, "append");
expect($client->prepend("log", "one,"), true, "prepend");
expect($client->get("log"), "one,two,three", "get after append and prepend");
expect($client->append("absent", "x"), false, "append to an absent key");

expect($client->set("n", "10"), true, "set of a number");
expect($client->increment("n", 5), 15, "increment");
expect($client->decrement("n", 20), 0, "decrement below zero");
expect($client->increment("absent"), false, "increment of an absent key");
expectCode(Memcached::RES_NOTFOUND, "increment of an absent key");
expect(@$client->increment("log"), false, "increment of a text");

expect($client->touch("log", 100), true, "touch");
expect($client->touch("absent", 100), false, "touch of an absent key");
expect($client->set("gone", "x", -1), true, "set that expires at once");
expect($client->get("gone"), false, "get of an expired entry");
expect($client->set("dated", "x", time() + 1000), true, "set with a Unix time");
expect($client->get("dated"), "x", "get of an entry with a Unix time");

expect($client->delete("log"), true, "delete");
expect($client->delete("log"), false, "second delete");
expect($client->deleteMulti(["m0", "m1", "absent"])["m1"], true, "deleteMulti");
expect($client->getMulti(["m0", "m1", "m2"]), ["m2" => "x2"], "getMulti after deleteMulti");

$client->setOption(Memcached::OPT_NOREPLY, true);
expect($client->set("quiet", "q"), true, "set with noreply");
$client->setOption(Memcached::OPT_NOREPLY, false);
expect($client->get("quiet"), "q", "get after a set with noreply");
$client->setOption(Memcached::OPT_BUFFER_WRITES, true);
for ($i = 0; $i < 100; $i++) {
    $client->set("buffered$i", "b$i");
}
expect($client->flushBuffers(), true, "flushBuffers");
// Before the option is changed: that makes the client reconnect, and the sets may still be on their way.
expect($client->get("buffered99"), "b99", "get after buffered sets");
$client->setOption(Memcached::OPT_BUFFER_WRITES, false);

$server = "$argv[1]:$argv[2]";
expect(substr($client->getVersion()[$server], 0, 4), "1.6.", "getVersion");
$stats = $client->getStats();
expect(isset($stats[$server]["curr_items"], $stats[$server]["pid"]), true, "getStats");
expect(is_array($client->getStats("settings")), true, "getStats of a group");
expect(is_array($client->getAllKeys()), true, "getAllKeys");
expect($client->flush(), true, "flush");
expect($client->getMulti(["text", "added", "m5"]), [], "getMulti after flush");
$client->quit();
echo "$checks checks\n";
