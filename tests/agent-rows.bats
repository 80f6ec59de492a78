#!/usr/bin/env bats
# rooms: agent
# agent(1) --rows without a lead: a filter that reads the rows of all shards that it takes.
load helper

# queue ROWS [OPTION]...: in shards of 100.
queue() {
	local rows=$1
	shift
	start shardd shardd -s "$T/s.sock" -j "$T/journal" -n "$rows" -b 100 -m 1 "$@"
	SHARDD=$PID
	ready "$T/s.sock"
}

again() {
	kill "$SHARDD"
	ended "$SHARDD"
	rm -r journal
	queue "$@"
}

filter() { agent --id w0 --shards "$T/s.sock" "$@"; }
stat_of() { ask "$T/s.sock" stat | field "$1"; }

@test "the rows of all shards, in their order, from plain and packed files" {
	seq 5000 | sed 's/$/ text/' >d
	queue 5000 -e 2
	filter --rows d -- cat >got
	cat d d | cmp - got
	[ "$(stat_of samples-done)" = 10000 ]
	head -n 1234 d | gzip >a.gz
	tail -n +1235 d >b
	again 5000
	filter --rows a.gz,b -- cat | cmp - d
	again 5000
	filter --rows a.gz --rows b --index-dir indexes -- sha256sum >sum
	[ "$(cat sum)" = "$(sha256sum <d)" ]
	[ "$(ls indexes | wc -l)" -eq 2 ]
	# There is nothing left: the command is not even begun.
	run -0 filter --rows a.gz,b -- false
}

@test "csv with a header and quoted newlines; libsvm with comments; no newline at the end; empty files" {
	{ printf '\xef\xbb\xbfn,text\r\n'; seq 300 | sed 's/$/,"a\n\nb"\r/'; printf '301,x'; } >a.csv
	printf 'n,text\n' >b.csv
	: >c.csv
	{ echo n,text; echo; seq 99; } >d.csv
	queue 400
	filter --rows a.csv,b.csv,c.csv,d.csv --format csv -- cat >got
	{ seq 300 | sed 's/$/,"a\n\nb"\r/'; echo 301,x; seq 99; } | cmp - got
	again 400
	filter --rows a.csv,b.csv,c.csv,d.csv --header -- cat >got
	{ printf 'n,text\r\n'; seq 300 | sed 's/$/,"a\n\nb"\r/'; echo 301,x; seq 99; } | cmp - got
	seq 300 | sed 's/.*/# a comment\n\n1 1:&/' | gzip >d.svm.gz
	again 300
	filter --rows d.svm.gz -- cat | cmp - <(seq 300 | sed 's/.*/1 1:&/')
}

@test "shuffled shards, shuffled rows: each once an epoch" {
	seq 2500 >d
	queue 2500 -e 2 --shuffle shards
	filter --rows d -- cat >got
	not cmp -s <(cat d d) got
	sort -n got | uniq -c | awk '$1 != 2 || $2 != NR { bad = 1 } END { exit bad || NR != 2500 }'
	again 2500 --shuffle samples --seed 3
	filter --rows d -- cat >got
	not cmp -s d got
	sort -n got | cmp - d
	# The first shard's order is the one that shardd(8) tells.
	[ "$(head -n 100 got | sort -n | awk 'NR == 1 { first = $1 } END { print $1 - first }')" = 99 ]
}

@test "nothing is done before the command has read all and ended with 0" {
	seq 1000 >d
	queue 1000
	start w0 agent --id w0 --shards s.sock --rows d -- sh -c \
		'wc -l; touch read; while [ ! -e go ]; do sleep 0.05; done'
	wait_for '[ -e read ]'
	[ "$(stat_of samples-done)" = 0 ]
	touch go
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(cat w0.out)" = 1000 ]
	[ "$(stat_of samples-done)" = 1000 ]
}

@test "a command that ends with something else, or has not read all: its rows go back" {
	seq 100000 >d
	start shardd shardd -s "$T/s.sock" -j "$T/journal" -n 100000 -b 1000 -m 1 --retries 1
	ready s.sock
	run -3 filter --rows d -- sh -c 'cat >/dev/null; exit 3'
	[[ $output == *"agent: sh: exit status 3; its 100 shards go back"* ]]
	run -65 filter --rows d -- head -n 1
	[[ $output == *"agent: head: ended with exit status 0, but has not read all its rows: "* ]]
	run -65 filter --rows d -- true
	run -65 filter --rows d -- sh -c 'exec <&-; sleep 0.3'
	# All but a few of the last bytes, which were in the pipe.
	run -65 filter --rows d -- sh -c 'head -c 588800 >/dev/null'
	status=0
	filter --rows d -- sh -c 'kill -9 $$' 2>err || status=$?
	[ "$status" -eq 137 ]
	run -78 filter --rows d -- ./no-such-command
	[ "$(stat_of samples-done)" = 0 ]
	[ "$(stat_of held)" = 0 ]
	[ "$(filter --rows d -- wc -l)" = 100000 ]
	[ "$(stat_of samples-done)" = 100000 ]
}

@test "two agents share; what one that is killed had read is read by the other" {
	seq 20000 >d
	queue 20000
	start w0 agent --id w0 --shards s.sock --rows d -- sh -c \
		'head -n 500 >/dev/null; echo $$ >pid.new; mv pid.new pid; exec sleep 1000'
	local W0=$PID
	wait_for '[ -e pid ]'
	start w1 agent --id w1 --shards s.sock --rows d -- cat
	kill -9 "$W0"
	wait_for "not kill -0 $(cat pid) 2>/dev/null"
	ask s.sock 'fail worker=w0'
	ended "$PID"
	[ "$status" -eq 0 ]
	sort -n w1.out | cmp - d
}

@test "leases are renewed while a command takes its time" {
	seq 1000 >d
	queue 1000 --lease 3
	run -0 filter --rows d -- sh -c 'wc -l; sleep 5'
	[ "$output" = 1000 ]
}

@test "a lease that is over while the command runs, or just when it has ended: 75, for others get the rows" {
	queue 100 --lease 2
	seq 100 >d
	local when
	for when in runs ended; do
		rm -f read go
		start w0 agent --id w0 --shards s.sock --rows d -- sh -c \
			'head -n 1 >/dev/null; touch read; while [ ! -e go ]; do sleep 0.05; done; cat >/dev/null'
		wait_for '[ -e read ]'
		kill -STOP "$PID"
		[ "$when" = runs ] || touch go
		wait_for '[ "$(stat_of doing)" = 0 ]'
		kill -CONT "$PID"
		ended "$PID"
		[ "$status" -eq 75 ]
		[[ $(cat w0.err) == *"no longer belongs to this agent"*"do not use the command's output"* ]]
	done
	[ "$(stat_of samples-done)" = 0 ]
}

@test "SIGTERM: the input ends, and the command may finish what it has" {
	start shardd shardd -s "$T/s.sock" -j "$T/journal" -n 100000 -b 1000 -m 1
	ready s.sock
	# The pipe is full long before the last shard, and the command reads on only when it may.
	yes "$(head -c 1000 /dev/zero | tr '\0' x)" | head -n 100000 >d
	start w0 agent --id w0 --shards s.sock --rows d --grace 1000 -- sh -c \
		'touch started; while [ ! -e go ]; do sleep 0.05; done; wc -l'
	wait_for '[ -e started ] && [ "$(stat_of doing)" -ge 1 ]'
	kill "$PID"
	touch go
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(cat w0.out)" = "$(stat_of samples-done)" ]
	[ "$(stat_of samples-done)" -gt 0 ]
	rm started go
	start w1 agent --id w1 --shards s.sock --rows d --grace 0.2 -- sh -c \
		'trap "" TERM; touch started; while :; do sleep 1; done'
	wait_for '[ -e started ]'
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(stat_of held)" = 0 ]
}

@test "somebody says that the agent is dead: 75, for what was read is others'" {
	seq 1000 >d
	queue 1000
	start w0 agent --id w0 --shards s.sock --rows d -- sh -c 'cat >/dev/null; touch read; exec sleep 1000'
	wait_for '[ -e read ]'
	ask s.sock 'fail worker=w0'
	ended "$PID"
	[ "$status" -eq 75 ]
	[[ $(cat w0.err) == *"w0: was fenced, because somebody took it for dead"* ]]
}

@test "a file that is not the queue's, or changes in the middle" {
	seq 1000 >d
	queue 1001
	run -78 filter --rows d -- cat
	[[ $output == *"--rows: the files have 1000 rows, but the queue has 1001"* ]]
	yes "$(head -c 1000 /dev/zero | tr '\0' x)" | head -n 100000 >big
	again 100000
	start w0 agent --id w0 --shards s.sock --rows big -- sh -c \
		'touch started; while [ ! -e go ]; do sleep 0.05; done; cat >/dev/null'
	wait_for '[ -e started ]'
	touch -d '2001-01-01' big
	touch go
	ended "$PID"
	[ "$status" -eq 65 ]
	[[ $(cat w0.err) == *"big: was changed while in use"* ]]
	[ "$(stat_of samples-done)" = 0 ]
}

@test "with a lead: a trainer reads the rows of each batch from its standard input" {
	{ echo n,x; seq 100 | sed 's/$/,x/'; } | gzip >d.csv.gz
	start shardd shardd -s s.sock -j journal -n 100 -b 20 -m 2 --settle-only --shuffle samples
	ready s.sock
	start lead ps-server -s lead.sock --id lead --lead-only --shards s.sock
	ready lead.sock
	cat >trainer.sh <<-'END'
		read -r header
		echo "$header" >header
		while echo next >&$PACELINE_OUT; do
			while read -r word rest <&$PACELINE_IN; do
				case $word in batch) batch=$rest ;; ok) break ;; esac
			done
			case $rest in
			*state=end*) [ -z "$(cat)" ] && exit 0; exit 3 ;;
			*state=wait*) continue ;;
			esac
			size=${batch#*size=}
			for i in $(seq ${size%% *}); do read -r row; echo "$row"; done
			echo step loss=1 >&$PACELINE_OUT
			read -r word rest <&$PACELINE_IN
		done
	END
	start w0 agent --id w0 --shards s.sock --lead lead.sock --batch 7 --rows d.csv.gz --header -- \
		sh trainer.sh
	wait_for '[[ $(ask s.sock stat) == *" todo=0 doing=0 "* ]]'
	ask lead.sock finish >/dev/null
	ended "$PID"
	[ "$status" -eq 0 ]
	[ "$(cat header)" = n,x ]
	not cmp -s w0.out <(seq 100 | sed 's/$/,x/')
	sort -n w0.out | cmp - <(seq 100 | sed 's/$/,x/')
	run -78 agent --id w0 --shards s.sock --lead lead.sock --rows trainer.sh -- true
	[[ $output == *"--rows: the files have "*" rows, but the queue has 100"* ]]
}
