// A program of go-redis against a server: PORT PROTOCOL (2 or 3). VARVE_TLS is a folder with ca.crt, client.crt and
// client.key, by which it speaks TLS. Ends with "go-redis: N checks" and status 0, or with
// what failed.
//
//	pipelines | transactions with WATCH | a blocking work queue | publish/subscribe over a lost connection | collections
//
// Each part has keys of its own; the server is taken to be empty.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	checks atomic.Int64
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		fail("%s: got %v (%T), not %v (%T)", what, got, got, want, want)
	}
	checks.Add(1)
}

// ok takes a reply that must not be an error.
func ok[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func until(what string, test func() bool) {
	for n := 0; n < 500; n++ {
		if test() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	fail("in vain: %s", what)
}

func pipelines(rdb *redis.Client) {
	pipe := rdb.Pipeline()
	gets := make([]*redis.StringCmd, 1000)
	for n := range gets {
		pipe.Set(ctx, fmt.Sprint("p:", n), fmt.Sprint("v", n), 0)
		pipe.Incr(ctx, "p:count")
		gets[n] = pipe.Get(ctx, fmt.Sprint("p:", n))
	}
	same("replies", len(ok(pipe.Exec(ctx))), 3000)
	for n, get := range gets {
		same("a value", get.Val(), fmt.Sprint("v", n))
	}
	same("count", ok(rdb.Get(ctx, "p:count").Int()), 1000)
	pipe = rdb.Pipeline()
	pipe.Set(ctx, "p:s", "text", time.Minute)
	wrong, none, text := pipe.LPush(ctx, "p:s", "x"), pipe.Get(ctx, "p:nothing"), pipe.Get(ctx, "p:s")
	_, err := pipe.Exec(ctx)
	same("first error", err.Error(), "WRONGTYPE Operation against a key holding the wrong kind of value")
	same("of its command", wrong.Err(), err)
	same("nothing", none.Err(), redis.Nil)
	same("after an error", text.Val(), "text")
	large := strings.Repeat("x", 3_000_000)
	ok(rdb.Set(ctx, "p:large", large, 0).Result())
	same("large value", ok(rdb.Get(ctx, "p:large").Result()) == large, true)
}

func transfer(rdb *redis.Client, from, to string) {
	for {
		err := rdb.Watch(ctx, func(tx *redis.Tx) error {
			a, b := ok(tx.Get(ctx, from).Int()), ok(tx.Get(ctx, to).Int())
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, from, a-1, 0)
				pipe.Set(ctx, to, b+1, 0)
				return nil
			})
			return err
		}, from, to)
		if err == nil {
			return
		}
		if !errors.Is(err, redis.TxFailedErr) {
			panic(err)
		}
	}
}

func transactions(rdb *redis.Client) {
	ok(rdb.Set(ctx, "t:k", 1, 0).Result())
	err := rdb.Watch(ctx, func(tx *redis.Tx) error {
		ok(rdb.Set(ctx, "t:k", 2, 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "t:k", 3, 0).Err() })
		return err
	}, "t:k")
	same("a watched key was changed", err, error(redis.TxFailedErr))
	same("nothing was done", ok(rdb.Get(ctx, "t:k").Result()), "2")
	cmds, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, "t:k", 1)
		pipe.Incr(ctx, "t:k")
		return nil
	})
	same("an error within", strings.HasPrefix(err.Error(), "WRONGTYPE"), true)
	same("what follows it", cmds[1].(*redis.IntCmd).Val(), int64(3))
	_, err = rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, "SET", "t:k")
		pipe.Incr(ctx, "t:k")
		return nil
	})
	same("an error while queueing", strings.HasPrefix(err.Error(), "EXECABORT") || strings.HasPrefix(err.Error(), "ERR wrong number"), true)
	same("nothing was done", ok(rdb.Get(ctx, "t:k").Result()), "3")

	accounts := []string{"t:a", "t:b", "t:c", "t:d"}
	for _, account := range accounts {
		ok(rdb.Set(ctx, account, 100, 0).Result())
	}
	var work sync.WaitGroup
	for id := 0; id < 6; id++ {
		work.Add(1)
		go func(id int) {
			defer work.Done()
			for n := 0; n < 50; n++ {
				from := (id + n) % 4
				transfer(rdb, accounts[from], accounts[(from+1+n%3)%4])
			}
		}(id)
	}
	work.Wait()
	sum := 0
	for _, account := range accounts {
		sum += ok(rdb.Get(ctx, account).Int())
	}
	same("the sum", sum, 400)
}

// consumers runs two that pop and two that move until each has found a "stop"; each job is sent to done.
func consumers(rdb *redis.Client, work *sync.WaitGroup, done chan<- string) {
	for id := 0; id < 4; id++ {
		work.Add(1)
		go func(id int) {
			defer work.Done()
			doing := fmt.Sprint("q:doing:", id)
			for {
				var job string
				if id < 2 {
					job = ok(rdb.BLPop(ctx, 10*time.Second, "q:urgent", "q:jobs").Result())[1]
				} else {
					job = ok(rdb.BLMove(ctx, "q:jobs", doing, "LEFT", "RIGHT", 10*time.Second).Result())
				}
				if job == "stop" {
					return
				}
				if id >= 2 {
					same("taken from those in work", ok(rdb.LRem(ctx, doing, 1, job).Result()), int64(1))
				}
				done <- job
			}
		}(id)
	}
}

func queue(rdb *redis.Client) {
	same("nothing to pop", rdb.BLPop(ctx, time.Second, "q:nothing").Err(), error(redis.Nil))
	same("nothing to move", rdb.BLMove(ctx, "q:nothing", "q:x", "LEFT", "RIGHT", time.Second).Err(), error(redis.Nil))
	var taking, making sync.WaitGroup
	done := make(chan string, 1000)
	consumers(rdb, &taking, done)
	for id := 0; id < 2; id++ {
		making.Add(1)
		go func(id int) {
			defer making.Done()
			for n := 0; n < 250; n++ {
				ok(rdb.RPush(ctx, "q:jobs", fmt.Sprint(id, ":", n)).Result())
			}
		}(id)
	}
	making.Wait()
	ok(rdb.RPush(ctx, "q:jobs", "stop", "stop", "stop", "stop").Result())
	taking.Wait()
	close(done)
	jobs, count := map[string]bool{}, 0
	for job := range done {
		jobs[job], count = true, count+1
	}
	same("jobs done", []int{count, len(jobs)}, []int{500, 500})
	same("jobs left", ok(rdb.LLen(ctx, "q:jobs").Result()), int64(0))
}

func publishing(rdb *redis.Client) {
	listener := rdb.Subscribe(ctx, "news")
	defer listener.Close()
	ok(0, listener.PSubscribe(ctx, "ne?s"))
	messages := listener.Channel(redis.WithChannelSize(1000))
	subscribed := func() bool {
		return ok(rdb.PubSubNumSub(ctx, "news").Result())["news"] == 1 && ok(rdb.PubSubNumPat(ctx).Result()) == 1
	}
	publish := func(from int) {
		until("subscriptions", subscribed)
		for n := from; n < from+100; n++ {
			same("receivers", ok(rdb.Publish(ctx, "news", n).Result()), int64(2))
		}
		next, patterns := from, 0
		for next < from+100 || patterns < 100 {
			select {
			case message := <-messages:
				if message.Pattern == "ne?s" {
					patterns++
				} else {
					same("a message", message.Payload, strconv.Itoa(next))
					next++
				}
			case <-time.After(10 * time.Second):
				fail("no message %d", next)
			}
		}
	}
	publish(0)
	// The connection is killed; the library connects again and subscribes to what it had.
	same("killed", ok(rdb.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()), int64(1))
	publish(100)
	ok(0, listener.Unsubscribe(ctx, "news"))
	ok(0, listener.PUnsubscribe(ctx, "ne?s"))
	until("no subscriber", func() bool { return ok(rdb.Publish(ctx, "news", "nobody").Result()) == 0 })
}

func collections(rdb *redis.Client) {
	for _, count := range []int{10, 5000} {
		key := func(name string) string { return fmt.Sprint("c:", count, ":", name) }
		var fields, items []any
		var scores []redis.Z
		for n := 0; n < count; n++ {
			fields = append(fields, fmt.Sprint("f", n), fmt.Sprint("v", n))
			items = append(items, n)
			scores = append(scores, redis.Z{Score: float64(n) / 2, Member: fmt.Sprint("m", n)})
		}
		same("fields", ok(rdb.HSet(ctx, key("hash"), fields...).Result()), int64(count))
		same("all fields", len(ok(rdb.HGetAll(ctx, key("hash")).Result())), count)
		same("field by field", ok(rdb.HMGet(ctx, key("hash"), "f1", "no").Result()), []any{"v1", nil})
		same("a sum", ok(rdb.HIncrByFloat(ctx, key("hash"), "n", 1.5).Result()), 1.5)
		same("elements", ok(rdb.RPush(ctx, key("list"), items...).Result()), int64(count))
		same("a range", ok(rdb.LRange(ctx, key("list"), 2, 4).Result()), []string{"2", "3", "4"})
		same("the last", ok(rdb.LIndex(ctx, key("list"), -1).Result()), strconv.Itoa(count-1))
		same("members", ok(rdb.SAdd(ctx, key("set"), append(items, "x")...).Result()), int64(count+1))
		ok(rdb.SAdd(ctx, key("other"), "x", "y", 3).Result())
		common := ok(rdb.SInter(ctx, key("set"), key("other")).Result())
		sort.Strings(common)
		same("common members", common, []string{"3", "x"})
		same("scores", ok(rdb.ZAdd(ctx, key("zset"), scores...).Result()), int64(count))
		first := []redis.Z{{Score: 0, Member: "m0"}, {Score: 0.5, Member: "m1"}}
		same("first", ok(rdb.ZRangeWithScores(ctx, key("zset"), 0, 1).Result()), first)
		between := &redis.ZRangeBy{Min: "(1", Max: "2"}
		same("between", ok(rdb.ZRangeByScore(ctx, key("zset"), between).Result()), []string{"m3", "m4"})
		same("a rank", ok(rdb.ZRank(ctx, key("zset"), "m9").Result()), int64(9))
		same("a score", ok(rdb.ZScore(ctx, key("zset"), "m3").Result()), 1.5)
		same("type", ok(rdb.Type(ctx, key("zset")).Result()), "zset")
		seen := map[string]bool{}
		for scan := rdb.HScan(ctx, key("hash"), 0, "f*", 100).Iterator(); scan.Next(ctx); {
			seen[scan.Val()] = true
		}
		// Fields and values come in turn.
		same("scanned", len(seen), 2*count)
	}
	found := map[string]bool{}
	for scan := rdb.ScanType(ctx, 0, "c:*", 10, "set").Iterator(); scan.Next(ctx); {
		found[scan.Val()] = true
	}
	same("keys", len(found), 4)
	same("expiry", ok(rdb.Expire(ctx, "c:10:set", 100*time.Second).Result()), true)
	same("time left", ok(rdb.TTL(ctx, "c:10:set").Result()) > 90*time.Second, true)
}

// security is how TLS is spoken; nil without it.
func security() *tls.Config {
	folder := os.Getenv("VARVE_TLS")
	if folder == "" {
		return nil
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	authorities := x509.NewCertPool()
	same("an authority", authorities.AppendCertsFromPEM(ok(os.ReadFile(path("ca.crt")))), true)
	own := ok(tls.LoadX509KeyPair(path("client.crt"), path("client.key")))
	return &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{own}, ServerName: "localhost"}
}

func main() {
	protocol, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail("no protocol: %v", err)
	}
	address := "127.0.0.1:" + os.Args[1]
	options := &redis.Options{Addr: address, Protocol: protocol, PoolSize: 20, TLSConfig: security()}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	for _, part := range []func(*redis.Client){pipelines, transactions, queue, publishing, collections} {
		part(rdb)
	}
	fmt.Printf("go-redis: %d checks\n", checks.Load())
}
