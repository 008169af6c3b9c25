// Every operation of gomemcache, with the answer it must give: gomemcache HOST PORT. Exit status 1 and a line on
// standard error at the first wrong answer.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

var checks = 0

func expect(actual, wanted interface{}, what string) {
	checks++
	if actual != wanted {
		fmt.Fprintf(os.Stderr, "%s: expected %v, got %v\n", what, wanted, actual)
		os.Exit(1)
	}
}

func value(client *memcache.Client, key string) string {
	item, err := client.Get(key)
	expect(err, nil, "get of "+key)
	return string(item.Value)
}

func item(key, text string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(text)}
}

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	expect(client.FlushAll(), nil, "FlushAll")

	big := strings.Repeat("\x00\r\n", 100000)
	expect(client.Set(&memcache.Item{Key: "big", Value: []byte(big), Flags: 4294967295, Expiration: 100}), nil, "Set")
	found, err := client.Get("big")
	expect(err, nil, "Get")
	expect(string(found.Value), big, "value of Get")
	expect(found.Flags, uint32(4294967295), "flags of Get")
	_, err = client.Get("absent")
	expect(err, memcache.ErrCacheMiss, "Get of an absent key")

	keys := []string{}
	for i := 0; i < 400; i++ {
		key := fmt.Sprintf("m%d", i)
		keys = append(keys, key)
		if i < 300 {
			expect(client.Set(item(key, "x"+key)), nil, "Set of many")
		}
	}
	many, err := client.GetMulti(keys)
	expect(err, nil, "GetMulti")
	expect(len(many), 300, "items of GetMulti")
	expect(string(many["m299"].Value), "xm299", "value of GetMulti")

	expect(client.Set(item("text", "hello")), nil, "Set")
	first, _ := client.Get("text")
	second, _ := client.Get("text")
	first.Value = []byte("world")
	expect(client.CompareAndSwap(first), nil, "CompareAndSwap with the right unique")
	second.Value = []byte("moon")
	expect(client.CompareAndSwap(second), memcache.ErrCASConflict, "CompareAndSwap with a stale unique")
	expect(client.Delete("text"), nil, "Delete")
	expect(client.CompareAndSwap(second), memcache.ErrCacheMiss, "CompareAndSwap of an absent key")
	expect(client.Delete("text"), memcache.ErrCacheMiss, "second Delete")

	expect(client.Add(item("added", "yes")), nil, "Add of an absent key")
	expect(client.Add(item("added", "no")), memcache.ErrNotStored, "Add of a present key")
	expect(client.Replace(item("absent", "no")), memcache.ErrNotStored, "Replace of an absent key")
	expect(client.Replace(item("added", "yes2")), nil, "Replace of a present key")
	expect(value(client, "added"), "yes2", "value after Replace")

	expect(client.Set(item("n", "10")), nil, "Set of a number")
	number, err := client.Increment("n", 5)
	expect(err, nil, "Increment")
	expect(number, uint64(15), "sum of Increment")
	number, err = client.Decrement("n", 20)
	expect(err, nil, "Decrement")
	expect(number, uint64(0), "difference of Decrement")
	_, err = client.Increment("absent", 1)
	expect(err, memcache.ErrCacheMiss, "Increment of an absent key")
	_, err = client.Increment("added", 1)
	expect(err != nil, true, "Increment of a text is refused")

	expect(client.Touch("n", 100), nil, "Touch")
	expect(client.Touch("absent", 100), memcache.ErrCacheMiss, "Touch of an absent key")
	expect(client.Set(&memcache.Item{Key: "gone", Value: []byte("x"), Expiration: -1}), nil, "Set that expires at once")
	_, err = client.Get("gone")
	expect(err, memcache.ErrCacheMiss, "Get of an expired entry")

	expect(client.DeleteAll(), nil, "DeleteAll")
	many, err = client.GetMulti(keys)
	expect(err, nil, "GetMulti after DeleteAll")
	expect(len(many), 0, "items of GetMulti after DeleteAll")
	fmt.Println(checks, "checks")
}
