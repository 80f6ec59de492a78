# PARTITIONS=local: workers with rows of their own, and rows that move; see also shardd.bats.
load helper

# ---- of a worker ----

# files: what workers here are told of their columns and the model.
files() {
	schema_file a '' format=csv label=y scale=none
	model_file lr 1 0
}

# part ARG...: shardd with partitions of w0 (3 rows) and w1 (2), and w0 with its rows and ARG.
part() {
	printf 'y,a\n0,10\n1,11\n0,12' >d.csv
	files
	start parts shardd -s "$T/parts.sock" -j "$T/parts" --partitions w0:3,w1:2 -b 1 -m 1 -e 9
	ready "$T/parts.sock"
	start w0 worker --id w0 --shards "$T/parts.sock" --servers "$T/none.sock" --data d.csv \
		--schema schema --model-file lr "$@"
}

@test "partitions: a worker gives rows of its own and of others, as they stand" {
	mkdir -p spill/w0
	printf 'a,y\n30,1\n' >spill/w0/4-1
	part --spill "$T/spill/w0" --peers "$T"
	ready "$T/w0.rows.sock"
	run ask "$T/w0.rows.sock" 'rows begin=1 length=9' 'rows begin=4 length=1' 'rows begin=3 length=1' \
		'rows begin=x length=1' 'more'
	[ "$(sed 's/\t.*//' <<<"$output")" = "$(printf '%s\n' \
		'rows begin=1 count=2 header-bytes=4 bytes=14' y,a 1,11 0,12 ok \
		'rows begin=4 count=1 header-bytes=4 bytes=9' a,y 30,1 ok \
		'err code=unknown-row' 'err code=bad-request' 'err code=unknown-request')" ]
	rm d.csv # which is not the same as a row that is not here
	[[ $(ask "$T/w0.rows.sock" 'rows begin=1 length=1') == "err code=data"* ]]
}

@test "partitions: rows that move are fetched, kept, and said to have come" {
	part --spill "$T/spill/w0" --peers "$T"
	ready "$T/w0.rows.sock"
	printf 'y,a\n1,21\n1,22\n' >d1.csv
	# w0 trains nothing, w1 a lot: rows 1 and 2 are to move to w1, when w1 lives.
	ask "$T/parts.sock" 'hello worker=w1' get\ worker=w1\ generation=1{,,,,,,,,,,}
	[[ $(ask "$T/parts.sock" 'moves worker=w1') == "move id=0 from=w0 "*"ok count=1" ]]
	start w1 worker --id w1 --shards "$T/parts.sock" --servers "$T/none.sock" --data d1.csv \
		--schema schema --model-file lr --spill "$T/spill/w1" --peers "$T"
	wait_for '[[ $(ask "$T/parts.sock" partitions) == *"moves=0 moves-done=1 rows-moved=2"* ]]'
	[ "$(ls spill/w1)" = 1-2 ]
	[ "$(cat spill/w1/1-2)" = "$(printf 'y,a\n1,11\n0,12')" ]
}

@test "partitions: a giver that is stopped does not keep the other from its end" {
	part --spill "$T/spill/w0" --peers "$T"
	ready "$T/w0.rows.sock"
	kill -STOP "$PID"
	printf 'y,a\n1,21\n1,22\n' >d1.csv
	ask "$T/parts.sock" 'hello worker=w1' get\ worker=w1\ generation=1{,,,,,,,,,,}
	start w1 worker --id w1 --shards "$T/parts.sock" --servers "$T/none.sock" --data d1.csv \
		--schema schema --model-file lr --spill "$T/spill/w1" --peers "$T"
	wait_for 'grep -q "rows do not come: $T/w0.rows.sock" w1.err'
	kill "$PID"
	ended "$PID"
	[ "$status" -eq 0 ]
}

@test "partitions: data, shardd and words that do not fit" {
	part
	wait "$PID" && false || [ $? -eq 78 ]
	grep -q 'hands out partitions: --spill is needed' w0.err
	printf 'y,a\n0,10\n' >d1.csv
	run worker --id w1 --shards "$T/parts.sock" --servers "$T/none.sock" --data d1.csv \
		--schema schema --model-file lr --spill "$T/spill"
	[ "$status" -eq 78 ]
	[[ $output == *"hands out 2 samples, but the data have 1 rows"* ]]
	run worker --id w1 --shards x --servers y --data d1.csv --schema schema --model-file lr --peers z
	[ "$status" -eq 64 ]
	[[ $output == *"needs --spill"* ]]
}

# ---- of a job ----

# local_job EPOCHS [KEY=VALUE]...: three workers with 300 rows each, of very different speeds.
local_job() {
	local epochs=$1 w
	shift
	data 900
	for w in 0 1 2; do { head -n 1 d.csv; tail -n +2 d.csv | sed -n "$((300 * w + 1)),$((300 * w + 300))p"; } >"d$w.csv"; done
	mkdir drag
	for w in 0 1 2; do echo "drag speed=$((100 + 500 * w))" >"drag/w$w"; done
	job MODEL=audit WORKERS=3 SHUFFLE=samples "EPOCHS=$epochs" PARTITIONS=local,migrate:0.5 SYNC=asp \
		"DRAG=$T/drag" "DATA='$T/d0.csv $T/d1.csv $T/d2.csv'" "$@"
}

# as_told SUMMARY: every row is in the model as often as shardd says, and at least once.
as_told() {
	start after shardd -s "$T/after.sock" -j "$T/run/state/journal"
	ready "$T/after.sock"
	[ "$(ask "$T/after.sock" partitions | field rows-moved)" -gt 0 ]
	ask "$T/after.sock" rows | sed -n 's/.* begin=\([0-9]*\) length=\([0-9]*\) times=\([0-9]*\)/\1 \2 \3/p' |
		awk '{ for (r = $1; r < $1 + $2; r++) print r, $3 }' | sort -n | cut -d ' ' -f 2 >want
	ckpt export "$(field checkpoint <<<"$1")" audit.safetensors
	local header
	header=$(od -An -t u8 -N 8 audit.safetensors | tr -d ' ')
	tail -c +$((header + 9)) audit.safetensors | od -An -v -t f4 -w4 | awk '{ print $1 }' >have
	cmp want have
	[ "$(awk '$1 < 1' have | wc -l)" -eq 0 ]
}

@test "PARTITIONS=local: each row as often as told, also when rows move" {
	local_job 6
	run run_job
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 <<<"$output" | field samples)" -eq 5400 ]
	as_told "$(tail -n 1 <<<"$output")"
}

# Its rows can't go to others while it has them in hand, and no other move is planned meanwhile.
@test "PARTITIONS=local: a worker that is stopped holds up the others only until it is given up" {
	local_job 12 HUNG=2 RESTARTS=shard:never
	start first trainctl run job.env --run-dir "$T/run"
	local job=$PID
	wait_for '[ "$(ask run/shardd.sock stat | field samples-done)" -gt 1000 ]'
	kill -STOP "$(trainctl status --run-dir run | grep "^node .* id=w0 " | field pid)"
	wait_for 'grep -q "^event role=worker id=w0 kind=hung " run/state/job.log'
	ended "$job"
	[ "$status" -eq 0 ]
	[ "$(tail -n 1 first.out | field samples)" -eq 10800 ]
	as_told "$(tail -n 1 first.out)"
}

@test "PARTITIONS=local: what does not fit is refused" {
	job PARTITIONS=local
	run run_job
	[ "$status" -eq 78 ]
	[[ $output == *"needs a file of DATA for each worker: 1 files, WORKERS=2"* ]]
	job PARTITIONS=local WORKERS=1 SHUFFLE=shards
	run run_job
	[ "$status" -eq 78 ]
	[[ $output == *"has no shards to shuffle"* ]]
	head -n 1 d.csv >empty.csv
	job PARTITIONS=local "DATA='$T/d.csv $T/empty.csv'"
	run run_job
	[ "$status" -eq 65 ]
	[[ $output == *"a partition needs one"* ]]
}
