# shardd(8): conversations as they are typed.
# rooms: shard wire base
load helper

setup_more() {
	S=$T/shardd.sock
	J=$T/journal
}

# shardd_start ARG...: a daemon on $S with its journal in $J.
shardd_start() {
	start shardd shardd -s "$S" -j "$J" "$@"
	ready "$S" || { cat shardd.err; return 1; }
}

crash() {
	kill -9 "$PID"
	wait "$PID" || true
}

# expect FILE-LIKE-TEXT: what $output must be, at= and age= aside.
expect() {
	local got want
	got=$(sed -E 's/ (at|age|first-at|last-at)=[^ ]*//g; s/\t.*//' <<<"$output")
	want=$(cat)
	[ "$got" = "$want" ] || {
		diff <(echo "$want") <(echo "$got")
		return 1
	}
}

# settle NUMBER INCARNATION LINE...: a request with its payload.
settle() {
	local payload
	payload=$(printf '%s\n' "${@:3}")
	printf 'settle number=%s iteration=7 incarnation=%s bytes=%d\n%s\n' "$1" "$2" \
		$((${#payload} + 1)) "$payload"
}

talk() { # text on stdin
	socat -t 300 - "UNIX-CONNECT:$S" | tail -n +2
}

value() { # KEY of $output
	sed -nE "s/.*[ ]$1=([^ \t]*).*/\1/p" <<<"$output" | tail -1
}

@test "K = ceil(N / (B*M)); the last shard is short; hello says so" {
	shardd_start -n 101 -b 10 -m 2 -e 3
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'stat'
	expect <<-'END'
		ok generation=1 samples=101 shards=6 epochs=3 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=20 lease=0 seed=0
		ok
		stat epoch=0 epochs=3 todo=17 doing=1 done=0 held=0 shards=18 shards-done=0 samples-done=0 samples-repeated=0 incarnation=1 iteration=0
		ok
	END
	run ask "$S" 'list state=todo from=5 max=2'
	expect <<-'END'
		shard id=5 epoch=0 state=todo begin=100 length=1 upto=0 worker= returns=0
		shard id=6 epoch=1 state=todo begin=0 length=20 upto=0 worker= returns=0
		ok count=2 more=7
	END
}

@test "a drained queue answers wait while others work, and end when all is done" {
	shardd_start -n 20 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' 'get worker=w0 generation=1' \
		'done worker=w0 generation=1 id=0' 'get worker=w0 generation=1' \
		'done worker=w1 generation=1 id=1' 'get worker=w0 generation=1' \
		'done worker=w1 generation=1 id=1' 'stat'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		ok state=wait after=1
		ok
		ok state=wait after=1
		ok
		ok state=end held=0
		ok
		stat epoch=1 epochs=1 todo=0 doing=0 done=2 held=0 shards=2 shards-done=2 samples-done=20 samples-repeated=0 incarnation=1 iteration=0
		ok
	END
}

@test "get wait= is held back until there is something, and until the end" {
	shardd_start -n 10 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' >/dev/null
	printf 'get worker=w1 generation=1 wait=60\n' | socat -t 300 - "UNIX-CONNECT:$S" >waiting &
	PIDS+=($!)
	local waiter=$!
	wait_for '[ "$(ask $S counters | grep -c "verb=get requests=2")" = 1 ]'
	not grep -Eq '^(shard|ok)' waiting
	ask "$S" 'back worker=w0 generation=1 id=0'
	wait "$waiter"
	grep -q '^shard id=0 ' waiting
	printf 'get worker=w0 generation=1 wait=60\n' | socat -t 300 - "UNIX-CONNECT:$S" >waiting &
	PIDS+=($!)
	waiter=$!
	wait_for '[ "$(ask $S counters | grep -c "verb=get requests=3")" = 1 ]'
	ask "$S" 'done worker=w1 generation=1 id=0'
	wait "$waiter"
	grep -q '^ok state=end held=0' waiting
}

@test "get wait= ends by its own deadline, and with the worker's generation" {
	shardd_start -n 10 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1 wait=0.05'
	[ "${lines[4]}" = 'ok state=wait after=1' ]
	printf 'get worker=w1 generation=1 wait=60\n' | socat -t 300 - "UNIX-CONNECT:$S" >waiting &
	PIDS+=($!)
	local waiter=$!
	wait_for '[ "$(ask $S counters | grep -c "verb=get requests=3")" = 1 ]'
	ask "$S" 'fail worker=w1'
	wait "$waiter"
	grep -q '^err code=fenced' waiting
}

@test "stat wait= is held back until all is done or held" {
	shardd_start -n 10 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	run ask "$S" 'stat wait=0.05'
	[ "$(value doing)" = 1 ]
	printf 'stat wait=60\n' | socat -t 300 - "UNIX-CONNECT:$S" >waiting &
	PIDS+=($!)
	local waiter=$!
	wait_for '[ "$(ask $S counters | grep -c "verb=stat requests=2")" = 1 ]'
	ask "$S" 'done worker=w0 generation=1 id=0'
	wait "$waiter"
	grep -q ' doing=0 done=1 .* first-at=[0-9.]* last-at=[0-9.]*$' waiting
}

@test "a clock that was set back between two starts: times go on" {
	set_clock 0
	shardd_start -n 20 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	crash
	set_clock -3600
	shardd_start
	ask "$S" 'done worker=w0 generation=1 id=0' >/dev/null
	crash
	set_clock -7200
	shardd_start
	run ask "$S" 'get worker=w0 generation=1' 'done worker=w0 generation=1 id=1' stat
	[ "$(value samples-done)" = 20 ]
	awk -v first="$(value first-at)" -v last="$(value last-at)" 'BEGIN { exit !(last >= first && last < first + 300) }'
}

@test "a new hello fences: the late done is refused, the shard comes back" {
	shardd_start -n 20 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'hello worker=w0' \
		'done worker=w0 generation=1 id=0' 'progress worker=w0 generation=1 id=0 upto=x' \
		'get worker=w0 generation=1' 'get worker=w0 generation=2' \
		'get worker=w0 generation=2' 'bye worker=w0 generation=2' \
		'done worker=w0 generation=2 id=0' 'hello worker=w0 generation=2' 'hello worker=w0' \
		'get worker=ghost generation=1'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		ok generation=2 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		err code=fenced
		err code=fenced
		err code=fenced
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		ok
		err code=fenced
		err code=fenced
		ok generation=3 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		err code=unknown-worker
	END
}

@test "a get on a connection that is older than the worker's hello is refused; who says bye of it may have been there before" {
	shardd_start -n 20 -b 10 -m 1
	open older "$S"
	tell older 'stat\n'
	answered older '^ok'
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	tell older 'get worker=w0 generation=1\n'
	answered older '^err code=fenced'
	tell older 'bye worker=w0 generation=1\n'
	wait_for '[ "$(grep -c ^ok older.answers)" = 2 ]'
	[ "$(ask "$S" 'who worker=w0' | grep -c ^shard)" = 0 ]
}

@test "resume tells what is held, with what remains of it" {
	shardd_start -n 30 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'progress worker=w0 generation=1 id=0 upto=4' >/dev/null
	crash
	shardd_start
	run ask "$S" 'hello worker=w0 generation=1' 'hello worker=w0 generation=7'
	expect <<-'END'
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0 skip=4 take=6
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10 samples-done=4
		err code=fenced
	END
}

@test "errors name what is wrong; repeated requests have no second effect" {
	shardd_start -n 20 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'done worker=w1 generation=1 id=0' 'done worker=w0 generation=1 id=1' \
		'done worker=w0 generation=1 id=x' 'progress worker=w0 generation=1 id=0 upto=11' \
		'back worker=w0 generation=1 id=0 begin=5 length=6' \
		'get worker=w0 generation=1 max=0' 'get worker=w0' 'hello worker=a/b' 'sing' \
		'done worker=w0 generation=1 id=0' 'done worker=w0 generation=1 id=0' \
		'progress worker=w0 generation=1 id=0 upto=3' 'back worker=w0 generation=1 id=0' \
		'renew worker=w0 generation=1 id=0' 'release id=0' 'release id=5' 'fail worker=w9'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		err code=not-yours
		err code=unknown-shard
		err code=bad-request
		err code=bad-request
		err code=bad-request
		err code=bad-request
		err code=bad-request
		err code=bad-request
		err code=unknown-request
		ok
		ok
		ok
		ok
		err code=not-yours
		err code=bad-request
		err code=unknown-shard
		err code=unknown-worker
	END
}

@test "max= cuts: the part gets a new id, the rest stays first" {
	shardd_start -n 40 -b 20 -m 1
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1 max=8' \
		'get worker=w0 generation=1 max=8' 'get worker=w0 generation=1' \
		'get worker=w0 generation=1 max=20' 'done worker=w0 generation=1 id=2' \
		'done worker=w0 generation=1 id=0' 'stat' 'done worker=w0 generation=1 id=3' 'stat'
	expect <<-'END'
		ok generation=1 samples=40 shards=2 epochs=1 incarnation=1 shuffle=none batch=20
		shard id=2 epoch=0 begin=0 length=8 lease=0 seed=0
		ok
		shard id=3 epoch=0 begin=8 length=8 lease=0 seed=0
		ok
		shard id=0 epoch=0 begin=16 length=4 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=20 length=20 lease=0 seed=0
		ok
		ok
		ok
		stat epoch=0 epochs=1 todo=0 doing=2 done=2 held=0 shards=2 shards-done=0 samples-done=12 samples-repeated=0 incarnation=1 iteration=0
		ok
		ok
		stat epoch=0 epochs=1 todo=0 doing=1 done=3 held=0 shards=2 shards-done=1 samples-done=20 samples-repeated=0 incarnation=1 iteration=0
		ok
	END
}

@test "workers: how often each asked, and what it holds; of this process" {
	shardd_start -n 30 -b 10 -m 1
	run ask "$S" workers 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=9' \
		'hello worker=w1' 'hello worker=w1' 'done worker=w0 generation=1 id=0' workers
	expect <<-'END'
		ok
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		err code=fenced
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10
		ok generation=2 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10
		ok
		worker worker=w0 generation=1 asks=3 pieces=0
		worker worker=w1 generation=2 asks=2 pieces=0
		ok
	END
	crash
	shardd_start
	run ask "$S" workers 'get worker=w1 generation=2 max=3' workers
	[ "${lines[0]}" = 'worker worker=w0 generation=1 asks=0 pieces=0' ]
	[ "${lines[6]}" = 'worker worker=w1 generation=2 asks=1 pieces=1' ]
}

@test "progress: only the rest comes back; back and fail put it at the end of the queue" {
	shardd_start -n 30 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' \
		'progress worker=w0 generation=1 id=0 upto=6' \
		'progress worker=w0 generation=1 id=0 upto=2' 'fail worker=w0' 'hello worker=w1' \
		'get worker=w1 generation=1' 'back worker=w1 generation=1 id=1 begin=12 length=3' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' 'who worker=w1' 'who worker=w0'
	expect <<-'END'
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		ok
		ok
		ok shards=1
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10 samples-done=6
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		ok
		shard id=2 epoch=0 begin=20 length=10 lease=0 seed=0
		ok
		shard id=0 epoch=0 begin=6 length=4 lease=0 seed=0
		ok
		shard id=3 epoch=0 begin=12 length=3 lease=0 seed=0
		ok
		ok state=wait after=1
		shard id=1 epoch=0 state=doing begin=10 length=10 upto=0 worker=w1 returns=0 skip=0 take=2
		shard id=1 epoch=0 state=doing begin=10 length=10 upto=0 worker=w1 returns=0 skip=5 take=5
		shard id=2 epoch=0 state=doing begin=20 length=10 upto=0 worker=w1 returns=0
		shard id=0 epoch=0 state=doing begin=6 length=4 upto=0 worker=w1 returns=1
		shard id=3 epoch=0 state=doing begin=12 length=3 upto=0 worker=w1 returns=1
		ok generation=1 last=1
		ok generation=0 last=1
	END
}

@test "the next epoch's shards are handed out when this one has none left" {
	shardd_start -n 20 -b 10 -m 1 -e 2
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'get worker=w0 generation=1' 'back worker=w0 generation=1 id=0' \
		'get worker=w0 generation=1' 'get worker=w0 generation=1' 'get worker=w0 generation=1'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=2 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		shard id=2 epoch=1 begin=0 length=10 lease=0 seed=0
		ok
		ok
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=3 epoch=1 begin=10 length=10 lease=0 seed=0
		ok
		ok state=wait after=1
	END
}

@test "--settle-only: no word of a worker's own counts a row, and hello again is no death" {
	shardd_start -n 20 -b 10 -m 1 --retries 1 --settle-only
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'done worker=w0 generation=1 id=0' \
		'progress worker=w0 generation=1 id=0 upto=5' 'done worker=w0 generation=9 id=0' \
		'hello worker=w0' 'get worker=w0 generation=2 max=4' 'stat' 'fail worker=w0' 'stat'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		err code=settle-only
		err code=settle-only
		err code=fenced
		ok generation=2 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=2 epoch=0 begin=10 length=4 lease=0 seed=0
		ok
		stat epoch=0 epochs=1 todo=2 doing=1 done=0 held=0 shards=2 shards-done=0 samples-done=0 samples-repeated=0 incarnation=1 iteration=0
		ok
		ok shards=1
		stat epoch=0 epochs=1 todo=2 doing=0 done=0 held=1 shards=2 shards-done=0 samples-done=0 samples-repeated=0 incarnation=1 iteration=0
		ok
	END
	crash # what came back without blame comes back so from the journal
	shardd_start --settle-only
	run ask "$S" 'list'
	[[ $output == *"shard id=0 epoch=0 state=todo "* ]]
	[[ $output == *"shard id=2 epoch=0 state=held "* ]]
}

@test "a worker that lives says that a shard failed: it counts as a death; hold=1 holds it" {
	shardd_start -n 30 -b 10 -m 1 --retries 2
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'back worker=w0 generation=1 id=1 failed=1' 'back worker=w0 generation=1 id=1 failed=1' \
		'back worker=w0 generation=1 id=0 begin=0 length=5 failed=1' \
		'back worker=w0 generation=1 id=0 failed=2' \
		'back worker=w0 generation=1 id=0 failed=1 hold=1' 'list state=held' \
		'get worker=w0 generation=1' 'get worker=w0 generation=1'
	expect <<-'END'
		ok generation=1 samples=30 shards=3 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		ok
		ok
		err code=bad-request
		err code=bad-request
		ok
		shard id=0 epoch=0 state=held begin=0 length=10 upto=0 worker= returns=1
		ok count=1
		shard id=2 epoch=0 begin=20 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
	END
	crash # what was counted is in the journal
	shardd_start --retries 2
	run ask "$S" 'back worker=w0 generation=1 id=1 failed=1' 'list state=held'
	[[ $output == *"shard id=1 epoch=0 state=held "* ]]
	[[ $output == *"ok count=2"* ]]
}

@test "a shard whose workers keep dying is held, named, and released" {
	shardd_start -n 20 -b 10 -m 1 --retries 2
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'hello worker=w0' 'back worker=w0 generation=2 id=0' 'hello worker=w1' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' \
		'done worker=w1 generation=1 id=1' 'fail worker=w1' 'fail worker=w1' \
		'list state=held' 'get worker=w0 generation=2' 'stat' \
		'release id=0' 'release id=0' 'get worker=w0 generation=2' 'release id=0'
	expect <<-'END'
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		ok generation=2 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		ok
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=10 length=10 lease=0 seed=0
		ok
		ok
		ok shards=1
		ok shards=0
		shard id=0 epoch=0 state=held begin=0 length=10 upto=0 worker= returns=2
		ok count=1
		ok state=end held=1
		stat epoch=0 epochs=1 todo=0 doing=0 done=1 held=1 shards=2 shards-done=1 samples-done=10 samples-repeated=20 incarnation=1 iteration=0
		ok
		ok
		ok
		shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0
		ok
		err code=bad-request
	END
}

@test "a lease that ends takes the shard away; renew and progress keep it" {
	shardd_start -n 20 -b 10 -m 1 --lease 0.2 --retries 0
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1'
	[ "${lines[1]}" = 'shard id=0 epoch=0 begin=0 length=10 lease=0.2 seed=0' ]
	wait_for 'ask $S "list state=doing" | grep -q "^ok count=0"'
	run ask "$S" 'done worker=w0 generation=1 id=0' 'renew worker=w0 generation=1 id=0' \
		'hello worker=w0 generation=1' 'list state=todo max=1'
	expect <<-'END'
		err code=not-yours
		err code=not-yours
		ok generation=1 samples=20 shards=2 epochs=1 incarnation=1 shuffle=none batch=10
		shard id=0 epoch=0 state=todo begin=0 length=10 upto=0 worker= returns=1
		ok count=1 more=1
	END
	# Written down: it is in todo after a crash, too. And with a long lease it stays.
	crash
	shardd_start --lease 1000
	run ask "$S" 'list state=todo' 'get worker=w0 generation=1' 'renew worker=w0 generation=1 id=1'
	[ "$(grep -c '^shard id=[01] .*state=todo' <<<"$output")" = 2 ]
	[ "${lines[3]}" = 'shard id=1 epoch=0 begin=10 length=10 lease=1000 seed=0' ]
	[ "${lines[5]}" = ok ]
	crash
	shardd_start
	run ask "$S" 'list state=doing' 'list state=doing' 'list state=doing'
	[ "$(grep -c '^ok count=1' <<<"$output")" = 3 ]
}

@test "settle: judged before it acts, refusals told, its repetition answered as before, also after kill -9" {
	shardd_start -n 40 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' 'get worker=w0 generation=1' >/dev/null
	# one line that is none: nothing happens
	run talk < <(settle 1 1 'apply worker=w0 generation=1 id=0 begin=0 length=5' 'sing x=1')
	[[ $output == 'err code=bad-request'*'line 2'* ]]
	run ask "$S" stat
	[ "$(value samples-done)" = 0 ]
	ask "$S" 'fail worker=w1' >/dev/null
	run talk < <(settle 1 1 'apply worker=w0 generation=1 id=0 begin=0 length=5' \
		'apply worker=w1 generation=1 id=1 begin=10 length=10' \
		'back worker=w1 generation=1 id=1 begin=10 length=10' \
		'back worker=w0 generation=1 id=2 begin=20 length=10')
	expect <<-'END'
		fenced worker=w1 generation=1 id=1
		ok
	END
	# The same number: the same answer, whatever was fenced since, whatever is asked, and after a crash.
	ask "$S" 'hello worker=w1' 'get worker=w1 generation=2' 'hello worker=w0' >/dev/null
	crash
	shardd_start
	run talk < <(settle 1 1 'apply worker=w0 generation=1 id=0 begin=5 length=5')
	expect <<-'END'
		fenced worker=w1 generation=1 id=1
		ok
	END
	run ask "$S" stat
	[ "$(value samples-done)" = 5 ]
	[ "$(value iteration)" = 7 ]
	# An incarnation that is not in force wins over everything.
	run talk < <(settle 1 2 'sing')
	[[ $output == 'err code=fenced'* ]]
	# Another number is a new settle.
	run ask "$S" 'hello worker=w2' 'get worker=w2 generation=1'
	run talk < <(settle 2 1 "apply worker=w2 generation=1 id=$(value id) begin=$(value begin) length=$(value length)" \
		'apply worker=w2 generation=1 id=2 begin=20 length=0')
	[[ $output == 'err code=bad-request'* ]]
	run talk < <(printf 'settle number=2 iteration=8 incarnation=1\nstat\n')
	[ "${lines[0]}" = ok ]
	[ "$(value iteration)" = 8 ]
}

# settle_whole TERM NUMBER NOTE LINE...: all of it or nothing.
settle_whole() {
	settle "$2" 1 "${@:4}" | sed "s/^settle /&term=$1 whole=1 note=$3 /"
}

@test "term: an older lead's settle is refused, whole settles, and what was committed last, also after kill -9" {
	shardd_start -n 40 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' >/dev/null
	run ask "$S" 'term incarnation=1'
	[ "$output" = 'ok term=1' ]
	run ask "$S" 'term incarnation=2' 'term'
	[[ ${lines[0]} == 'err code=fenced'* ]]
	[[ ${lines[1]} == 'err code=bad-request'* ]]
	run talk < <(settle_whole 1 7 e-1 'apply worker=w0 generation=1 id=0 begin=0 length=5' \
		'apply worker=w1 generation=9 id=1 begin=10 length=10')
	expect <<-'END'
		fenced worker=w1 generation=9 id=1
		ok settled=0
	END
	run ask "$S" stat
	[ "$(value samples-done)" = 0 ]
	run talk < <(settle_whole 1 8 e-2 'apply worker=w0 generation=1 id=0 begin=0 length=5')
	[ "$output" = 'ok settled=1 samples-done=5' ]
	crash
	shardd_start
	run talk < <(settle_whole 1 8 e-3 'apply worker=w0 generation=1 id=0 begin=5 length=5')
	[ "$output" = 'ok settled=1 samples-done=5' ] # again: nothing new
	run ask "$S" stat
	[ "$(value samples-done)" = 5 ]
	run ask "$S" 'term incarnation=1'
	[ "$output" = 'ok term=2 iteration=8 note=e-2 samples-done=5' ]
	crash
	shardd_start
	run talk < <(settle_whole 1 9 e-4 'apply worker=w0 generation=1 id=0 begin=5 length=5')
	[[ $output == 'err code=fenced'*'term 1 is not in force: 2 is'* ]]
	run ask "$S" "save file=$T/saved"
	run ask "$S" "load file=$T/saved" 'term incarnation=2'
	[ "${lines[0]}" = 'ok incarnation=2' ]
	[ "${lines[1]}" = 'ok term=3 iteration=8 note=e-2 samples-done=5' ]
	# Of two that are asked at once, the later one is in force.
	run ask "$S" 'term incarnation=2' 'term incarnation=2' stat
	[ "${lines[0]}" = 'ok term=4 iteration=8 note=e-2 samples-done=5' ]
	[ "${lines[1]}" = 'ok term=5 iteration=8 note=e-2 samples-done=5' ]
	[ "$(value term)" = 5 ]
	run talk < <(settle_whole 4 9 e-5 'apply worker=w0 generation=1 id=0 begin=5 length=5' |
		sed 's/incarnation=1/incarnation=2/')
	[[ $output == 'err code=fenced'*'term 4 is not in force: 5 is'* ]]
}

@test "settle: a line that is refused takes the rest of its push with it" {
	shardd_start -n 40 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'hello worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' >/dev/null
	# id 1 is in the hand of w1: the lead will apply nothing of this push, so none of it counts
	run talk < <(settle 1 1 'apply worker=w0 generation=1 id=0 begin=0 length=10' \
		'apply worker=w0 generation=1 id=1 begin=10 length=5' \
		'apply worker=w1 generation=1 id=1 begin=15 length=5')
	expect <<-'END'
		fenced worker=w0 generation=1 id=0
		fenced worker=w0 generation=1 id=1
		ok
	END
	run ask "$S" stat
	[ "$(value samples-done)" = 5 ]
	crash
	shardd_start
	run ask "$S" stat
	[ "$(value samples-done)" = 5 ]
}

@test "settle: rows that are not in that hand are refused by name, and only they" {
	shardd_start -n 40 -b 10 -m 1
	# id 0 comes back, is handed to w1 and done there
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'back worker=w0 generation=1 id=0' \
		'hello worker=w1' 'get worker=w1 generation=1' 'get worker=w1 generation=1' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' \
		'done worker=w1 generation=1 id=0' >/dev/null
	run talk < <(settle 1 1 'apply worker=w0 generation=1 id=0 begin=0 length=10' \
		'apply worker=w1 generation=1 id=1 begin=10 length=10')
	expect <<-'END'
		fenced worker=w0 generation=1 id=0
		ok
	END
	# a shard that never was, one of somebody who never was, rows past the end
	run talk < <(settle 2 1 'apply worker=w0 generation=1 id=39 begin=0 length=5' \
		'apply worker=w7 generation=1 id=2 begin=20 length=5' \
		'apply worker=w1 generation=1 id=2 begin=20 length=10')
	expect <<-'END'
		fenced worker=w0 generation=1 id=39
		fenced worker=w7 generation=1 id=2
		ok
	END
	run ask "$S" stat
	[ "$(value samples-done)" = 30 ]
	# settled before, under a new number; twice in one; overlapping; past the end; overflowing
	local n=2
	for line in 'id=2 begin=20 length=10' 'id=3 begin=30 length=10' 'id=3 begin=34 length=2' \
		'id=3 begin=35 length=6' 'id=3 begin=18446744073709551615 length=18446744073709551615'; do
		n=$((n + 1))
		run talk < <(settle $n 1 'apply worker=w1 generation=1 id=3 begin=30 length=5' \
			"apply worker=w1 generation=1 $line")
		[ "$(grep -c '^fenced worker=w1' <<<"$output")" = 2 ]
	done
	run ask "$S" stat
	[ "$(value samples-done)" = 30 ]
	crash
	shardd_start
	run talk < <(settle $((n + 1)) 1 'apply worker=w1 generation=1 id=3 begin=30 length=10')
	[ "$output" = ok ]
	run ask "$S" stat
	[ "$(value samples-done)" = 40 ]
}

syncs() { stat -c %s syncs; }

# settle_here NUMBER BOOT LINE...: a settle of a sender of that boot.
settle_here() { settle "$1" 1 "${@:3}" | sed "s/^settle /&boot=$2 /"; }

@test "settle boot=: not waited for on one boot, once the journal says so; all else is" {
	boot aaaa-1
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' >/dev/null
	run ask "$S" stat
	not grep -q ' boot=' <<<"$output"
	local before=$(syncs)
	settle_here 1 aaaa-1 'apply worker=w0 generation=1 id=0 begin=0 length=1' | talk
	[ "$(syncs)" -eq $((before + 1)) ] # says that there are such from now on
	for i in 2 3 4; do
		settle_here $i aaaa-1 "apply worker=w0 generation=1 id=0 begin=$i length=1" | talk
	done
	[ "$(syncs)" -eq $((before + 1)) ]
	settle_here 4 aaaa-1 | talk # again
	[ "$(syncs)" -eq $((before + 1)) ]
	settle_here 4 bbbb-2 | talk # again, by somebody else: what it hears must be on disk
	[ "$(syncs)" -eq $((before + 2)) ]
	settle_here 5 bbbb-2 'apply worker=w0 generation=1 id=0 begin=5 length=1' | talk
	[ "$(syncs)" -eq $((before + 3)) ]
	settle_here 6 '' 'apply worker=w0 generation=1 id=0 begin=6 length=1' | talk
	[ "$(syncs)" -eq $((before + 4)) ]
	settle_here 7 aaaa-1 'apply worker=w0 generation=1 id=0 begin=7 length=1' | talk
	[ "$(syncs)" -eq $((before + 4)) ]
	ask "$S" 'hello worker=w1'
	[ "$(syncs)" -eq $((before + 5)) ]
	settle_here 8 aaaa-1 'apply worker=w0 generation=1 id=0 begin=8 length=1' | talk
	ask "$S" "save file=$T/cut"
	[ "$(syncs)" -eq $((before + 6)) ]
	settle_here 9 aaaa-1 'apply worker=w0 generation=1 id=0 begin=9 length=1' | talk
	ask "$S" "save file=$T/cut boot=aaaa-1"
	[ "$(syncs)" -eq $((before + 6)) ]
	run ask "$S" stat
	[ "$(value boot)" = aaaa-1 ]
	not grep -q ' lost=' <<<"$output"
	[ "$(value samples-done)" = 9 ]
	ask "$S" 'get worker=w0 generation=1 boot=aaaa-1' | grep '^shard id=2 '
	[ "$(syncs)" -eq $((before + 6)) ]
	ask "$S" 'get worker=w0 generation=1' | grep '^shard id=3 '
	[ "$(syncs)" -eq $((before + 7)) ]
	ask "$S" "load file=$T/cut" 'hello worker=w0' >/dev/null
	before=$(syncs)
	ask "$S" 'get worker=w0 generation=2 boot=aaaa-1' | grep '^shard id='
	[ "$(syncs)" -eq $((before + 1)) ] # no settle is loose: so is no get
}

@test "settle boot=: kill -9 loses nothing, and the same boot goes on" {
	boot aaaa-1
	shardd_start -n 100 -b 10 -m 1
	{
		printf '%s\n' 'hello worker=w0' 'get worker=w0 generation=1'
		settle_here 1 aaaa-1 'apply worker=w0 generation=1 id=0 begin=0 length=4'
		settle_here 2 aaaa-1 'apply worker=w0 generation=1 id=0 begin=4 length=3'
	} | talk
	for again in 1 2; do
		crash
		shardd_start
		run ask "$S" stat
		[ "$(value samples-done)" = 7 ]
		[ "$(value boot)" = aaaa-1 ]
		not grep -q ' lost=' <<<"$output"
	done
	settle_here 3 aaaa-1 'apply worker=w0 generation=1 id=0 begin=7 length=3' | talk
	run ask "$S" 'get worker=w0 generation=1' stat
	[ "${lines[1]}" = ok ]
	[ "$(value done)" = 1 ]
}

@test "settle boot=: after another boot all changes are refused until a load" {
	boot aaaa-1
	shardd_start -n 100 -b 10 -m 1
	ask "$S" "hello worker=w0" "save file=$T/cut" 'get worker=w0 generation=1' \
		'hello worker=w1' 'get worker=w1 generation=1' 'hello worker=w1' >/dev/null
	settle_here 1 aaaa-1 'apply worker=w0 generation=1 id=0 begin=0 length=4' | talk
	crash
	for again in 1 2; do # it is not forgotten by a start
		boot bbbb-2
		shardd_start
		grep -q "boot aaaa-1 of the machine.*refused" shardd.err
		local request
		for request in 'hello worker=w2' 'hello worker=w0 generation=1' \
			'get worker=w0 generation=1' 'get worker=w0 generation=1 wait=60' \
			'done worker=w0 generation=1 id=0' 'renew worker=w0 generation=1 id=0' \
			'progress worker=w0 generation=1 id=0 upto=3' 'back worker=w0 generation=1 id=0' \
			'bye worker=w0 generation=1' 'fail worker=w0' 'release id=0' \
			'settle number=1 iteration=7 incarnation=1' "save file=$T/late"; do
			[[ $(ask "$S" "$request") = "err code=boot"* ]]
		done
		run ask "$S" 'who worker=w0' 'who worker=w1' 'list state=doing' stat
		expect <<-END
			shard id=0 epoch=0 state=doing begin=0 length=10 upto=4 worker=w0 returns=0 skip=4 take=6
			ok generation=1 last=1
			ok generation=2 last=2
			shard id=0 epoch=0 state=doing begin=0 length=10 upto=4 worker=w0 returns=0 skip=4 take=6
			ok count=1
			stat epoch=0 epochs=1 todo=9 doing=1 done=0 held=0 shards=10 shards-done=0 samples-done=4 samples-repeated=0 incarnation=1 iteration=7 boot=aaaa-1 lost=1
			ok
		END
		crash
	done
	shardd_start
	run ask "$S" "load file=$T/cut incarnation=1" 'hello worker=w1' 'hello worker=w0' \
		'get worker=w0 generation=2' stat
	[ "${lines[0]}" = 'ok incarnation=2' ]
	[ "$(value generation)" = 2 ] # none comes again, of those that were given since the save, too
	[ "${lines[3]}" = 'shard id=0 epoch=0 begin=0 length=10 lease=0 seed=0' ]
	not grep -q ' boot=' <<<"$output"
	run ask "$S" 'hello worker=w1'
	[ "$(value generation)" = 4 ]
}

@test "settle boot=: an end in order leaves nothing to be lost" {
	boot aaaa-1
	shardd_start -n 100 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	settle_here 1 aaaa-1 'apply worker=w0 generation=1 id=0 begin=0 length=4' | talk
	kill "$PID"
	ended "$PID"
	[ "$status" = 0 ]
	boot bbbb-2
	shardd_start
	run ask "$S" 'done worker=w0 generation=1 id=0' stat
	[ "${lines[0]}" = ok ]
	[ "$(value done)" = 1 ]
	not grep -q ' boot=' <<<"$output"
}

@test "save, load: rolled back, every generation fenced, incarnations only rise" {
	shardd_start -n 40 -b 10 -m 1
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'done worker=w0 generation=1 id=0' "save file=$T/cut incarnation=1" \
		'done worker=w0 generation=1 id=1' 'hello worker=w9' 'get worker=w9 generation=1' 'stat'
	[ "$(value samples-done)" = 20 ]
	run ask "$S" "load file=$T/cut incarnation=2" "load file=$T/cut incarnation=1" 'stat' \
		'get worker=w0 generation=1' 'get worker=w9 generation=1' 'hello worker=w9' \
		"save file=$T/cut2 incarnation=1" "load file=$T/cut incarnation=1" "load file=$T/cut"
	expect <<-'END'
		err code=fenced
		ok incarnation=2
		stat epoch=0 epochs=1 todo=3 doing=0 done=1 held=0 shards=4 shards-done=1 samples-done=10 samples-repeated=10 incarnation=2 iteration=0
		ok
		err code=fenced
		err code=fenced
		ok generation=2 samples=40 shards=4 epochs=1 incarnation=2 shuffle=none batch=10 samples-done=10
		err code=fenced
		err code=fenced
		ok incarnation=3
	END
	[ ! -e "$T/cut2" ]
	crash
	shardd_start
	run ask "$S" 'hello worker=w9' 'stat'
	[ "$(value generation)" = 3 ]
	[ "$(value incarnation)" = 3 ]
}

@test "load forgets the last settle; a file of other parameters or damaged changes nothing" {
	shardd_start -n 40 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	settle 4 1 'apply worker=w7 generation=1 id=0 begin=0 length=1' | talk >/dev/null
	ask "$S" "save file=$T/cut" >/dev/null
	settle 5 1 'apply worker=w0 generation=1 id=0 begin=0 length=10' | talk
	run ask "$S" "load file=$T/missing" "load file=$T" "load file=$J/lock" \
		"save file=$T/no/such/dir/cut" 'save file=' "load file=%2Fdev%2Fnull"
	expect <<-'END'
		err code=file
		err code=file
		err code=file
		err code=file
		err code=bad-request
		err code=file
	END
	size=$(stat -c %s "$T/cut")
	for at in 0 1 20 100 $((size / 2)) $((size - 9)) $((size - 2)) $((size - 1)); do
		cp "$T/cut" "$T/bad"
		byte=$(od -An -tu1 -j "$at" -N 1 "$T/bad")
		printf "\\x$(printf %x $((byte ^ 1)))" |
			dd of="$T/bad" bs=1 seek="$at" conv=notrunc status=none
		run ask "$S" "load file=$T/bad"
		[[ $output == 'err code=file'* ]]
	done
	for left in $((size - 20)) $((size - 1)) 0; do
		head -c "$left" "$T/cut" >"$T/bad"
		run ask "$S" "load file=$T/bad"
		[[ $output == 'err code=file'* ]]
	done
	start other shardd -s "$T/o.sock" -j "$T/o" -n 41 -b 10 -m 1
	ready "$T/o.sock"
	ask "$T/o.sock" "save file=$T/other"
	run ask "$S" "load file=$T/other"
	[[ $output == 'err code=file'*'samples=41'* ]]
	run ask "$S" 'stat'
	[ "$(value samples-done)" = 10 ]
	[ "$(value incarnation)" = 1 ]
	run ask "$S" "load file=$T/cut"
	run talk < <(settle 4 2 'apply worker=w0 generation=1 id=0 begin=0 length=10')
	expect <<-'END'
		fenced worker=w0 generation=1 id=0
		ok
	END
}

@test "shuffle=samples: a seed a piece; a part in the model leaves skip= and take=" {
	shardd_start -n 20 -b 20 -m 1 --shuffle samples --seed 3
	run ask "$S" 'hello worker=w0' 'get worker=w0 generation=1 max=10' \
		'get worker=w0 generation=1'
	[ "$(grep -c 'seed=0' <<<"$output")" = 0 ]
	seed=$(sed -nE 's/^shard id=1 .*seed=//p' <<<"$output")
	ask "$S" 'progress worker=w0 generation=1 id=1 upto=4' 'back worker=w0 generation=1 id=0' \
		'back worker=w0 generation=1 id=1' >/dev/null
	run ask "$S" 'get worker=w0 generation=1 max=10' 'get worker=w0 generation=1 max=2' \
		'get worker=w0 generation=1'
	[ "${lines[2]}" = "shard id=2 epoch=0 begin=0 length=10 lease=0 seed=$seed skip=4 take=2" ]
	[ "${lines[4]}" = "shard id=1 epoch=0 begin=0 length=10 lease=0 seed=$seed skip=6 take=4" ]
}

@test "shuffle=shards: the same seed the same order, another epoch another; ranges are positions" {
	shardd_start -n 100 -b 10 -m 1 -e 2 --shuffle shards --seed 5
	ask "$S" 'hello worker=w0' >/dev/null
	run talk < <(for i in $(seq 20); do echo 'get worker=w0 generation=1'; done)
	order=$(sed -nE 's/^shard .*begin=([0-9]*).*/\1/p' <<<"$output")
	[ "$(head -10 <<<"$order" | sort -n | tr '\n' ' ')" = '0 10 20 30 40 50 60 70 80 90 ' ]
	[ "$(tail -10 <<<"$order" | sort -n | tr '\n' ' ')" = '0 10 20 30 40 50 60 70 80 90 ' ]
	[ "$(head -10 <<<"$order")" != "$(tail -10 <<<"$order")" ]
	start other shardd -s "$T/o.sock" -j "$T/o" -n 100 -b 10 -m 1 -e 2 --shuffle shards --seed 5
	ready "$T/o.sock"
	S=$T/o.sock
	ask "$S" 'hello worker=w0' >/dev/null
	run talk < <(for i in $(seq 20); do echo 'get worker=w0 generation=1'; done)
	[ "$order" = "$(sed -nE 's/^shard .*begin=([0-9]*).*/\1/p' <<<"$output")" ]
}

@test "watch: a change for each transition" {
	shardd_start -n 20 -b 10 -m 1
	mkfifo hold
	socat - "UNIX-CONNECT:$S" <hold >seen &
	PIDS+=($!)
	exec 5>hold
	echo watch >&5
	wait_for '[ "$(ask $S counters | grep -c "verb=watch requests=1")" = 1 ]'
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
		'done worker=w0 generation=1 id=0' 'fail worker=w0' >/dev/null
	wait_for 'grep -q state=todo seen'
	run cat seen
	expect <<-'END'
		paceline role=shardd version=1
		change id=0 state=doing worker=w0
		change id=1 state=doing worker=w0
		change id=0 state=done worker=w0
		change id=1 state=todo worker=
	END
	exec 5>&-
}

@test "a hostile client is answered, or closed alone; others go on" {
	shardd_start -n 20 -b 10 -m 1
	run talk < <(printf 'hello\nhello worker=\x01\n\n=\nget worker=w0 worker=w0\nhello worker=%%\nhello worker=%%00\nget worker=w0 generation=-1\nget worker=w0 generation=99999999999999999999\nsettle number=1 iteration=1 incarnation=1 bytes=4\nxyz\nhelp\xff\n')
	[ "$(grep -c '^err code=' <<<"$output")" = 11 ]
	# An over-long line, half a line, a payload that never comes: that client only.
	mkfifo hold
	socat - "UNIX-CONNECT:$S" <hold >seen &
	PIDS+=($!)
	exec 5>hold
	printf 'hello worker=w5\nget wor' >&5
	wait_for 'grep -q ^ok seen'
	run talk < <(head -c 5000 /dev/zero | tr '\0' a; echo; echo stat)
	[ "$(grep -c '^ok' <<<"$output")" = 0 ]
	run talk < <(printf 'settle number=1 iteration=1 incarnation=1 bytes=99999999999\nstat\n')
	[[ $output == 'err code='* ]]
	echo 'ker=w5 generation=1' >&5
	wait_for 'grep -q "^shard id=0" seen'
	exec 5>&-
	# Half a line at the end of input is no request.
	run talk < <(printf 'fail worker=w5')
	[[ $output != *'shards='* ]]
	run ask "$S" 'stat'
	[ "$(value doing)" = 1 ]
}

@test "kill -9 loses nothing that was acknowledged; a torn tail is dropped and said" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1 max=3' \
		'done worker=w0 generation=1 id=0' "save file=$T/before" >/dev/null
	crash
	shardd_start
	ask "$S" "save file=$T/after"
	cmp before after
	crash
	# A line of which only the beginning was written, as by a crash.
	journal=$(ls "$J"/journal.0*)
	end=$(tr -d '\0' <"$journal" | wc -c)
	printf 'done worker=w0 generat' | dd of="$journal" bs=1 seek="$end" conv=notrunc status=none
	shardd_start
	grep -q 'journal\.0*[0-9]:[0-9]*: torn tail of 22 bytes dropped' shardd.err
	ask "$S" "save file=$T/after" 'get worker=w0 generation=1' >/dev/null
	cmp before after
	crash
	shardd_start
	[ ! -s shardd.err ]
	run ask "$S" 'who worker=w0'
	[ "$(grep -c '^shard' <<<"$output")" = 2 ]
}

@test "damage in the journal is refused with file:line and 65" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' >/dev/null
	ask "$S" 'done worker=w0 generation=1 id=0' >/dev/null
	crash
	journal=$(ls "$J"/journal.0*)
	cp "$journal" good
	count=$(tr -d '\0' <good | wc -l)
	for line in $(seq "$count"); do
		at=$(($(tr -d '\0' <good | head -n "$line" | wc -c) - 12))
		cp good "$journal"
		printf '!' | dd of="$journal" bs=1 seek="$at" conv=notrunc status=none
		run -65 shardd -s "$S" -j "$J"
		[[ $output == *"$journal:$line: damaged"* ]]
	done
	# A line that is missing as a whole.
	sed "$((count - 1))d" good >"$journal"
	run -65 shardd -s "$S" -j "$J"
}

@test "an empty newer file takes nothing from the journal" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' "save file=$T/before" >/dev/null
	crash
	mkfifo "$J/journal.000099"
	run -65 timeout 300 shardd -s "$S" -j "$J"
	[[ $output == *'journal.000099: is no regular file; '* ]]
	rm "$J/journal.000099"
	: >"$J/journal.000099"
	run -65 timeout 300 shardd -s "$S" -j "$J"
	[[ $output == *journal.000099*journal.000001,\ which\ is\ older,\ is\ whole* ]]
	[ -s "$J/journal.000001" ]
	rm "$J/journal.000099"
	shardd_start
	ask "$S" "save file=$T/after" >/dev/null
	cmp before after
}

@test "a journal that was cut short is refused with its place" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' >/dev/null
	crash
	journal=$(ls "$J"/journal.0*)
	count=$(tr -d '\0' <"$journal" | wc -l)
	# Behind a line: what is left is as good as a journal of less.
	truncate -s "$(tr -d '\0' <"$journal" | head -n $((count - 1)) | wc -c)" "$journal"
	run -65 timeout 300 shardd -s "$S" -j "$J"
	[[ $output == *"$journal:$count: "*"shorter than it was"* ]]
}

@test "save touches neither the journal nor what is no save" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' >/dev/null
	journal=$(ls "$J"/journal.0*)
	mkdir other
	shardd -s other/sock -j other/journal -n 10 2>other/err 3>&- &
	PIDS+=($!)
	ready other/sock
	echo precious >notes
	: >empty
	cp "$journal" copy
	ln -s "$J" link
	n=0
	for file in "$journal" "$J/journal.000099" "$J/x" "link/x" "$J/lock" "$J/." notes empty copy \
		other/journal/journal.000001 other/journal/lock "$T/other" /dev/null; do
		run ask "$S" "save file=$file"
		[[ $output == 'err code=file'* ]]
		n=$((n + 1))
	done
	[ "$n" = 13 ]
	[ "$(cat notes)" = precious ]
	[ "$(ls "$J")" = "$(printf 'journal.000001\nlock')" ]
	run ask "$S" 'get worker=w0 generation=1' "save file=$T/cut" "save file=$T/cut"
	[ "$(grep -c '^ok bytes=' <<<"$output")" = 2 ]
	crash
	shardd_start
	run ask "$S" 'who worker=w0'
	[ "$(grep -c '^shard' <<<"$output")" = 1 ]
}

@test "a journal of other parameters is refused with 78; the rest need not be said again" {
	shardd_start -n 1000 -b 10 -m 2 -e 3 --shuffle shards --seed 4
	kill "$PID"
	wait "$PID"
	[ ! -e "$S" ]
	for other in '-n 1001' '-m 3' '-e 4' '--shuffle none' '--seed 5'; do
		run -78 shardd -s "$S" -j "$J" $other
		[[ $output == *journal.0*'is of '* ]]
	done
	shardd_start -n 1000 -b 10
	run ask "$S" 'hello worker=w0'
	[ "$(value shards)" = 50 ]
	[ "$(value epochs)" = 3 ]
}

@test "a second instance is refused with 75, on the socket and on the journal" {
	shardd_start -n 10 -b 10 -m 1
	run -75 shardd -s "$T/other.sock" -j "$J"
	[[ $output == *'another instance runs'* ]]
	run -75 shardd -s "$S" -j "$T/other" -n 10
	run ask "$S" stat
	[ "$(value todo)" = 1 ]
}

@test "usage: 64, help and version" {
	run -64 shardd
	run -64 shardd -s "$S"
	run -64 shardd -s "$S" -j "$J"
	[[ $output == *'-n: is needed'* ]]
	run -64 shardd -s "$S" -j "$J" -n 0
	run -64 shardd -s "$S" -j "$J" -n 10 --shuffle all
	run -64 shardd -s "$S" -j "$J" -n 10 operand
	run -0 shardd --help
	[[ $output == *--lease* ]]
	run -0 shardd --version
	: >file
	run -73 shardd -s "$S" -j "$T/file/dir" -n 10
}

@test "a full disk: changes are refused, reads work, and it goes on when there is room" {
	mkdir disk
	if mount -t tmpfs -o size=200k none disk 2>/dev/null; then
		teardown_more() { umount "$T/disk"; }
	else
		skip "no tmpfs can be mounted here"
	fi
	J=$T/disk/journal
	shardd_start -n 100000 -b 1 -m 1
	head -c 1M /dev/zero >disk/ballast 2>/dev/null || true
	ask "$S" 'hello worker=w0' >/dev/null
	for i in $(seq 3000); do echo 'get worker=w0 generation=1'; done | talk >answers
	grep -q '^err code=journal' answers
	acknowledged=$(grep -c '^shard ' answers)
	run ask "$S" 'stat' 'list state=doing max=1' 'done worker=w0 generation=1 id=0' \
		"save file=$T/disk/cut" 'done worker=w0 generation=2 id=0' 'get worker=w0 generation=2'
	[ "$(grep -c '^err code=fenced' <<<"$output")" = 2 ]
	[ "$(grep -c "^stat .* doing=$acknowledged " <<<"$output")" = 1 ]
	[ "$(grep -c '^err code=journal' <<<"$output")" = 1 ]
	[ "$(grep -c '^err code=file' <<<"$output")" = 1 ]
	grep -q 'changes are refused until there is room' shardd.err
	# Started anew there is no room for a new journal: the old one goes on.
	crash
	shardd_start
	grep -q 'the old one goes on' shardd.err
	run ask "$S" 'stat' 'done worker=w0 generation=1 id=0'
	[ "$(grep -c "^stat .* doing=$acknowledged " <<<"$output")" = 1 ]
	[ "$(grep -c '^err code=journal' <<<"$output")" = 1 ]
	rm disk/ballast
	mount -o remount,size=2m disk
	run ask "$S" 'done worker=w0 generation=1 id=0' "save file=$T/before"
	[ "$(grep -c '^ok' <<<"$output")" = 2 ]
	crash
	shardd_start
	ask "$S" "save file=$T/after" >/dev/null
	cmp before after
	crash
	umount disk
}

@test "a limit of file size is a full disk, not a death" {
	(ulimit -f 100; exec shardd -s "$S" -j "$J" -n 100000 -b 1 -m 1) >shardd.out 2>shardd.err 3>&- &
	PID=$!
	PIDS+=("$PID")
	ready "$S"
	ask "$S" 'hello worker=w0' >/dev/null
	for i in $(seq 4000); do echo 'get worker=w0 generation=1'; done | talk >answers
	grep -q '^err code=journal' answers
	acknowledged=$(grep -c '^shard ' answers)
	run ask "$S" stat
	[ "$(value doing)" = "$acknowledged" ]
	crash
	shardd_start
	run ask "$S" stat
	[ "$(value doing)" = "$acknowledged" ]
}

@test "no room for the new journal of a start: 74, and the old one stays" {
	shardd_start -n 1000 -b 10 -m 1
	ask "$S" 'hello worker=w0' >/dev/null
	for i in $(seq 40); do echo 'get worker=w0 generation=1'; done | talk >answers
	ask "$S" "save file=$T/before" >/dev/null
	crash
	for kib in 1 2; do
		run -74 bash -c "ulimit -f $kib; exec shardd -s '$S' -j '$J'"
		[[ $output == *"$J/journal.000002.new: write: File too large"* ]]
		[ "$(ls "$J" | xargs)" = 'journal.000001 lock' ]
	done
	shardd_start
	ask "$S" "save file=$T/after" >/dev/null
	cmp before after
}

@test "readiness and the end are announced to the service manager" {
	start notified socat -u "UNIX-RECV:$T/notify" -
	wait_for '[ -S notify ]'
	export NOTIFY_SOCKET=$T/notify
	shardd_start -n 10 -b 10 -m 1
	wait_for 'grep -q READY=1 notified.out'
	kill "$PID"
	wait_for 'grep -q STOPPING=1 notified.out'
}

@test "a listening socket is taken over" {
	if ! command -v systemd-socket-activate >/dev/null; then skip 'no systemd-socket-activate here'; fi
	start shardd systemd-socket-activate -l "$S" shardd -s "$S" -j "$J" -n 10 -b 10 -m 1
	wait_for '[ -S $S ]'
	run ask "$S" 'hello worker=w0'
	[ "$(value generation)" = 1 ]
}

@test "--sync always and off: the same conversation" {
	for sync in always off; do
		J=$T/$sync
		shardd_start -n 30 -b 10 -m 1 --sync "$sync"
		ask "$S" 'hello worker=w0' 'get worker=w0 generation=1' 'get worker=w0 generation=1' \
			'done worker=w0 generation=1 id=0' "save file=$T/before" >/dev/null
		crash
		shardd_start --sync "$sync"
		ask "$S" "save file=$T/after" >/dev/null
		cmp before after
		crash
	done
}

# ---- partitions ----

# two_parts ARG...: w0 has rows 0..9, w1 rows 10..19, and both have said hello.
two_parts() {
	shardd_start --partitions w0:10,w1:10 -b 4 -m 1 -e 10 "$@"
	run ask "$S" 'hello worker=w0' 'hello worker=w1'
}

@test "partitions: each its own rows, over and over; epochs are a budget" {
	shardd_start --partitions w0:10,w1:10 -b 4 -m 1 -e 2
	run ask "$S" 'hello worker=w0' 'hello worker=w1' 'hello worker=w2'
	expect <<-'END'
		ok generation=1 samples=20 shards=5 epochs=2 incarnation=1 shuffle=none batch=4 partition-begin=0 partition-samples=10
		ok generation=1 samples=20 shards=5 epochs=2 incarnation=1 shuffle=none batch=4 partition-begin=10 partition-samples=10
		err code=unknown-worker
	END
	# 40 rows in all, 10 of them reserved for w0: w1 gets 30, and then waits.
	run ask "$S" get\ worker=w1\ generation=1{,,,,,,,,,}
	expect <<-'END'
		shard id=0 epoch=0 begin=10 length=4 lease=0 seed=0
		ok
		shard id=1 epoch=0 begin=14 length=4 lease=0 seed=0
		ok
		shard id=2 epoch=0 begin=18 length=2 lease=0 seed=0
		ok
		shard id=3 epoch=1 begin=10 length=4 lease=0 seed=0
		ok
		shard id=4 epoch=1 begin=14 length=4 lease=0 seed=0
		ok
		shard id=5 epoch=1 begin=18 length=2 lease=0 seed=0
		ok
		shard id=6 epoch=2 begin=10 length=4 lease=0 seed=0
		ok
		shard id=7 epoch=2 begin=14 length=4 lease=0 seed=0
		ok
		shard id=8 epoch=2 begin=18 length=2 lease=0 seed=0
		ok
		ok state=wait after=1
	END
	run ask "$S" 'partitions' 'rows'
	expect <<-'END'
		partition worker=w0 begin=0 samples=10 rows=10 passes=0 left=10 since=0 incoming=0 outgoing=0
		partition worker=w1 begin=10 samples=10 rows=10 passes=3 left=10 since=3 incoming=0 outgoing=0
		ok budget=10 unseen=10 migrate=2 moves=0 moves-done=0 rows-moved=0
		rows worker=w0 begin=0 length=10 times=0
		rows worker=w1 begin=10 length=10 times=3
		ok
	END
}

@test "partitions: a move is planned, survives kill -9, is made once, and resets the counts" {
	two_parts --migrate 0.9
	run ask "$S" 'moves worker=w1' 'get worker=w0 generation=1' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' 'get worker=w1 generation=1' \
		'get worker=w1 generation=1' 'get worker=w1 generation=1' 'get worker=w1 generation=1'
	[ "$(head -n 1 <<<"$output")" = "ok count=0" ]
	# 4 of 10 against 20 of 10: shares 3.3 and 16.7, but 4 rows stay at least.
	run ask "$S" 'moves worker=w1 wait=5' 'moves worker=w0'
	expect <<-'END'
		move id=0 from=w0 begin=4 length=6
		ok count=1
		ok count=0
	END
	crash
	shardd_start
	run ask "$S" 'moves worker=w1' 'moved worker=w0 id=0' 'moved worker=w1 id=7' 'moves worker=w2'
	expect <<-'END'
		move id=0 from=w0 begin=4 length=6
		ok count=1
		err code=not-yours
		err code=unknown-shard
		err code=unknown-worker
	END
	run ask "$S" 'moved worker=w1 id=0' 'moved worker=w1 id=0'
	expect <<-'END'
		ok
		ok
	END
	crash
	shardd_start
	run ask "$S" 'moved worker=w1 id=0' 'partitions' 'rows worker=w0'
	expect <<-'END'
		ok
		partition worker=w0 begin=0 samples=10 rows=4 passes=1 left=4 since=0 incoming=0 outgoing=0
		partition worker=w1 begin=10 samples=10 rows=16 passes=2 left=16 since=0 incoming=0 outgoing=0
		ok budget=176 unseen=6 migrate=0.9 moves=0 moves-done=1 rows-moved=6
		rows worker=w0 begin=0 length=4 times=1
		ok
	END
	run ask "$S" 'save file=saved' 'load file=saved' 'rows worker=w1'
	[[ $output == *"begin=4 length=2 times=0"* || $output == *"begin=4 length=6 times=0"* ]]
}

@test "partitions: what a dead worker held is its successor's" {
	two_parts --migrate 0
	run ask "$S" 'get worker=w0 generation=1' 'fail worker=w0' 'get worker=w1 generation=1' 'hello worker=w0' \
		get\ worker=w0\ generation=2{,,,}
	expect <<-'END'
		shard id=0 epoch=0 begin=0 length=4 lease=0 seed=0
		ok
		ok shards=1
		shard id=1 epoch=0 begin=10 length=4 lease=0 seed=0
		ok
		ok generation=2 samples=20 shards=5 epochs=10 incarnation=1 shuffle=none batch=4 partition-begin=0 partition-samples=10
		shard id=2 epoch=0 begin=4 length=4 lease=0 seed=0
		ok
		shard id=3 epoch=0 begin=8 length=2 lease=0 seed=0
		ok
		shard id=0 epoch=0 begin=0 length=4 lease=0 seed=0
		ok
		shard id=4 epoch=1 begin=0 length=4 lease=0 seed=0
		ok
	END
}

@test "partitions: a move can be dropped; bad words" {
	two_parts --migrate 0.5
	run ask "$S" get\ worker=w1\ generation=1{,,,} 'moves worker=w1 wait=5'
	[[ $output == *"move id=0 from=w0"* ]]
	run ask "$S" 'drop-move id=0' 'drop-move id=0' 'drop-move id=9' 'moves worker=w1'
	expect <<-'END'
		ok
		ok
		err code=unknown-shard
		ok count=0
	END
	crash
	run shardd -s "$S" -j "$J" --partitions w0:11,w1:9
	[ "$status" -eq 78 ]
	[[ $output == *"is of other --partitions"* ]]
	run shardd -s "$S" -j other --partitions w0:10,w0:10
	[ "$status" -eq 78 ]
	[[ $output == *"worker w0 has two partitions"* ]]
	run shardd -s "$S" -j other --partitions w0:10,w1:10 -n 30
	[ "$status" -eq 78 ]
	[[ $output == *"20 rows, but there are 30"* ]]
	run shardd -s "$S" -j other --partitions w0:10 --shuffle shards
	[ "$status" -eq 78 ]
	[[ $output == *"no order to shuffle"* ]]
	run shardd -s "$S" -j other --partitions w0
	[ "$status" -eq 64 ]
	[[ $output == *"'w0' is not WORKER:ROWS"* ]]
}
