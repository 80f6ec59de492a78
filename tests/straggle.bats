# rooms: straggle
load helper

state_of() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null; }

# A process that computes and never ends; pid in $BUSY.
busy() {
	start "busy$1" bash -c 'while :; do :; done'
	BUSY=$PID
}

@test "usage: help and version exit 0, mistakes 64" {
	run -0 straggle --help
	[[ $output == "usage: straggle "* ]]
	run -0 straggle --version
	run -64 straggle
	[[ $output == *"--dir, --pid, --pid-file or --match is missing"* ]]
	mkdir d
	run -64 straggle --dir d --nodes w0
	[[ $output == *"no pattern"* ]]
	run -64 straggle --dir d --nodes w0 wobble
	[[ $output == *"'wobble' is no pattern"* ]]
	run -64 straggle --dir d --nodes w0 persistent P=1
	[[ $output == *"this pattern has no key P="* ]]
	run -64 straggle --dir d --nodes w0,w0 persistent
	run -64 straggle --dir d --nodes ../w0 persistent
	run -64 straggle -n --nodes w5..w2 persistent
	run -64 straggle --dir d --nodes w0 --scale 0 persistent
	run -64 straggle --dir d --pid $$ persistent
	run -64 straggle --dir d persistent
	[[ $output == *"needs --nodes"* ]]
	run -64 straggle --pid $$ --life 0 persistent slowdown=2
	run -64 straggle --pid $$ persistent
	[[ $output == *"slowdown"* ]]
	run -64 straggle --pid 1 persistent slowdown=2
	run -64 straggle -n --nodes w0 transient
	[[ $output == *"--for is missing"* ]]
	[ -z "$(ls -A d)" ]
}

@test "a dry run is repeatable, and is a trace of itself" {
	set -- -n --nodes w0..w9 --servers ps0,ps1 --for 7200 --life 0 \
		transient persistent count=2 server transient p=0.1 on=100 every=300
	straggle "$@" >a
	straggle "$@" >b
	cmp a b
	[ "$(wc -l <a)" -gt 40 ]
	straggle --seed 2 "$@" >b
	not cmp -s a b
	straggle -n --nodes w0..w9 --servers ps0,ps1 replay file=a >b
	cmp a b
	# a later end adds to it and changes nothing of it
	straggle -n --nodes w0..w9 --servers ps0,ps1 --for 9000 --life 0 "${@:10}" >b
	awk '{ split($2, f, "="); if (f[2] < 7200) print }' a >a.part
	awk '{ split($2, f, "="); if (f[2] < 7200) print }' b | cmp - a.part
}

@test "drag files: written, changed, removed at the end" {
	mkdir d
	start s straggle --dir d --nodes w0,w1 --life 0 \
		device nodes=w0 speed=100 device nodes=w0 speed=50 from=0.2 \
		persistent nodes=w1 intensity=0.5 persistent nodes=w1 from=1000
	wait_for 'grep -qx "drag speed=50" d/w0'
	[ "$(cat d/w1.0)" = "drag delay=2" ]
	[ "$(ls -A d)" = "w0
w1.0" ]
	kill -TERM "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ -z "$(ls -A d)" ]
	[ "$(sed 's/ epoch=.*//; s/at=[0-9.]*/at=/' s.out)" = "on at= id=w0 speed=100
on at= id=w1 life=0 delay=2
on at= id=w0 speed=50
off at= id=w0
off at= id=w1 life=0" ]
	not grep -v ' epoch=[0-9]*\.[0-9]*$' s.out
}

@test "--for ends it; a schedule that is over ends by itself; a file of one life is there from the start" {
	mkdir d
	run -0 straggle --dir d --for 0.05 persistent nodes=w0
	[ "${#lines[@]}" -eq 2 ]
	[ -z "$(ls -A d)" ]
	run -0 straggle --dir d persistent nodes=w0 life=0 from=0.1 until=0.2
	[ "${#lines[@]}" -eq 2 ]
	[ -z "$(ls -A d)" ]
	start s straggle --dir d persistent nodes=w0 life=0 from=1000 until=1001
	wait_for '[ -e d/w0.0 ]'
	[ "$(cat d/w0.0)" = drag ]
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ -z "$(ls -A d)" ]
}

@test "killed, its files go all the same" {
	mkdir d
	start s straggle --dir d --life 0 persistent nodes=w0 persistent nodes=w1 life=1
	wait_for 'grep -q w1 s.out'
	kill -9 "$PID"
	wait_for '[ -z "$(ls -A d)" ]'
}

@test "files that are there already are left alone, or taken over with --force" {
	mkdir d
	echo 'drag speed=7' >d/w0
	run -73 straggle --dir d --for 0.01 persistent nodes=w1 persistent nodes=w0
	[[ $output == *"d/w0: is there already"* ]]
	[ "$(cat d/w0)" = "drag speed=7" ]
	[ "$(ls -A d)" = w0 ]
	run -0 straggle --dir d --force --for 0.01 persistent nodes=w0
	[ -z "$(ls -A d)" ]
	mkdir d/w0
	run -73 straggle --dir d --force --for 0.01 persistent nodes=w0
	[[ $output == *"no regular file"* ]]
}

@test "no directory 73, not ours 77, full disk 74; nothing stays" {
	run -73 straggle --dir nowhere persistent nodes=w0
	[[ $output == *"nowhere: directory of drag files"* ]]
	echo >file
	run -73 straggle --dir file persistent nodes=w0
	run -74 bash -c 'straggle -n --for 1 persistent nodes=w0 >/dev/full'
	[[ $output == *"standard output"* ]]
	mkdir d
	run -74 bash -c 'straggle --dir d --for 5 persistent nodes=w0 >/dev/full'
	[ -z "$(ls -A d)" ]
	# a limit on the size of files stands for a full disk: the write fails, the signal is ignored
	run bash -c 'trap "" XFSZ; ulimit -f 0; straggle --dir d --for 5 persistent nodes=w0 | cat'
	[[ $output == *"d/.w0.straggle: "* ]]
	[ -z "$(ls -A d)" ]
	[ "$(id -u)" -eq 0 ] || skip "not root"
	chmod 755 "$T" d
	run -77 setpriv --reuid 65534 --clear-groups "$(command -v straggle)" --dir d --for 1 \
		persistent nodes=w0
}

@test "a process is slowed down by its share, and goes on at the end" {
	busy 0
	start s straggle --pid "$BUSY" persistent count=1 slowdown=20
	wait_for '[ "$(state_of "$BUSY")" = T ]'
	wait_for '[ "$(state_of "$BUSY")" != T ]'
	wait_for '[ "$(state_of "$BUSY")" = T ]'
	kill -INT "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	wait_for '[ "$(state_of "$BUSY")" = R ]'
	grep -q "^on at=0 id=$BUSY slowdown=20 epoch=" s.out
	grep -q "^off at=.* id=$BUSY epoch=" s.out
}

@test "killed with kill -9, its group too: processes go on" {
	busy 0
	A=$BUSY
	busy 1
	start s setsid straggle --period 10 --pid "$A,$BUSY" persistent count=2 slowdown=1000
	wait_for '[ "$(state_of "$A")" = T ] && [ "$(state_of "$BUSY")" = T ]'
	kill -9 -- -"$PID" "$PID"
	wait_for '[ "$(state_of "$A")" = R ] && [ "$(state_of "$BUSY")" = R ]'
}

@test "the guardian killed: straggle gives up, processes go on" {
	busy 0
	start s straggle --period 10 --pid "$BUSY" persistent count=1 slowdown=1000
	wait_for '[ "$(state_of "$BUSY")" = T ]'
	kill -9 "$(children_of "$PID")"
	ended "$PID"
	[ "$status" -eq 71 ]
	grep -q 'guardian: has ended' s.err
	wait_for '[ "$(state_of "$BUSY")" = R ]'
}

@test "^Z: processes go on while straggle is stopped" {
	busy 0
	start s straggle --period 10 --pid "$BUSY" persistent count=1 slowdown=1000
	wait_for '[ "$(state_of "$BUSY")" = T ]'
	kill -TSTP "$PID"
	wait_for '[ "$(state_of "$PID")" = T ]'
	wait_for '[ "$(state_of "$BUSY")" = R ]'
	kill -CONT "$PID"
	wait_for '[ "$(state_of "$BUSY")" = T ]'
	kill -TERM "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	wait_for '[ "$(state_of "$BUSY")" = R ]'
}

@test "processes by pid file and by command line; those that end are said and dropped" {
	busy 0
	A=$BUSY
	busy 1
	printf '%s\n%s\n' "$A" "$BUSY" >pids
	start s straggle --pid-file pids persistent count=2 slowdown=3
	wait_for '[ "$(grep -c ^on s.out)" = 2 ]'
	kill -9 "$A"
	wait_for 'grep -q "^gone at=.* id=$A epoch=" s.out'
	kill -9 "$BUSY"
	ended "$PID"
	[ "$status" -eq 0 ]
	grep -q "^gone .* id=$BUSY " s.out
	start match-me-"$$" bash -c 'while :; do :; done' "unique-$T-word" second
	wait_for 'grep -aq second /proc/$PID/cmdline' # before that it is a copy of this one
	run -0 straggle --match "unique-$T-word second" --for 0.01 persistent count=1 slowdown=2
	[[ $output == "on at=0 id=$PID slowdown=2 "* ]]
}

@test "no such process, no such trace 66; a bad trace 65 with its line; somebody else's 77" {
	busy 0
	kill -9 "$BUSY"
	wait_for '[ ! -e /proc/$BUSY ]'
	run -66 straggle --pid "$BUSY" persistent slowdown=2
	[[ $output == *"no process $BUSY"* ]]
	run -66 straggle --pid-file nowhere persistent slowdown=2
	run -66 straggle --match "nobody-has-$T" persistent slowdown=2
	run -64 straggle --pid abc persistent slowdown=2
	run -66 straggle -n --nodes w0 replay file=nowhere
	[[ $output == *nowhere* ]]
	run -65 timeout 300 straggle -n --nodes w0 replay file=/dev/zero
	[[ $output == *'/dev/zero:1: the line is longer than'* ]]
	printf 'on at=0 id=w0 delay=1\non at=1 id=w7 delay=1\n' >trace
	run -65 straggle -n --nodes w0 replay file=trace
	[[ $output == *"trace:2: id=w7 is none of the nodes"* ]]
	printf 'on at=0 id=w0 delay=1\noff at=1 id=w0' >trace
	run -65 straggle -n --nodes w0 replay file=trace
	[[ $output == *"trace:2: "* ]]
	[ "$(id -u)" -eq 0 ] || skip "not root"
	busy 1
	run -77 setpriv --reuid 65534 --clear-groups "$(command -v straggle)" --pid "$BUSY" \
		persistent slowdown=2
}

@test "batch times of a real cluster" {
	need_data pai-minibatch/job_1_norm.csv
	run -0 --separate-stderr straggle -n --nodes w0..w9 --for 1000 replay unit=0.001 \
		file="$DATA/pai-minibatch/job_1_norm.csv"
	[ "${lines[0]}" = "on at=0 id=w0 delay=0.476" ]
	run -65 straggle -n --nodes w0..w8 replay file="$DATA/pai-minibatch/job_1_norm.csv"
	[[ $output == *"10 workers, but 9 nodes"* ]]
}

@test "usage of a cluster's machines becomes a trace: Alibaba's, Google's and named columns" {
	local usage=$PACELINE_ROOT/scripts/examples/usage-trace
	run -0 --separate-stderr "$usage" alibaba workers=2 speed=200 < <(printf '%s\n' m_1,0,20,30 m_2,0,50,30 m_1,10,95,1 \
		m_3,10,0,0 m_2,20,x,1 m_2,30,50,2)
	[ "$output" = "on at=0 id=w0 speed=160
on at=0 id=w1 speed=100
on at=10 id=w0 speed=20" ]
	[ "$stderr" = "usage-trace: 1 lines left out" ]
	echo "$output" >trace
	run -0 straggle -n --nodes w0,w1 --for 20 replay file=trace
	[ "${lines[2]}" = "on at=10 id=w0 speed=20" ]
	# Tasks on a machine add up, in microseconds; a machine that is no worker has no line.
	run -0 "$usage" google workers=1 < <(printf '%s\n' 600000000,900000000,1,0,77,0.125 600000000,700000000,2,0,77,0.125 \
		600000000,900000000,3,0,78,0.5)
	[ "$output" = "on at=0 id=w0 speed=50
on at=100 id=w0 speed=75
on at=300 id=w0 speed=100" ]
	run -0 "$usage" machine=host time=t cpu=used full=1 from=5 < <(printf '%s\n' t,used,host 0,0.5,a 10,0.25,a)
	[ "$output" = "on at=0 id=w0 speed=50
on at=5 id=w0 speed=75" ]
	run -0 "$usage" machine=host time=t cpu='of all' < <(printf '%s\n' 't, of all, host' '0, 25, rack 1' '10, 50, rack 2')
	[ "$output" = "on at=0 id=w0 speed=75
on at=10 id=w1 speed=50" ]
	run -65 "$usage" machine=host time=t cpu=load < <(printf '%s\n' t,used,host 0,0.5,a)
	[[ $output == *"no column load"* ]]
	run -65 "$usage" alibaba </dev/null
	run -65 "$usage" alibaba < <(head -c 100000 /dev/urandom)
	run -64 "$usage" alibaba processors=4 </dev/null
	run -64 "$usage" machine </dev/null
	run -64 "$usage" alibaba speed=fast </dev/null
	run -0 "$usage" alibaba speed=200 <"$PACELINE_ROOT/scripts/examples/machine-usage.csv"
	[ "${#lines[@]}" -gt 40 ]
}
