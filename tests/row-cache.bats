# Row caches of jobs: who makes them and reads them, what is said of them, and that the rows stay the same.
# rooms: data work
load helper

# wide_data: d.csv, 9 MB in 9000 rows: enough to be worth a cache.
wide_data() {
	awk 'BEGIN { pad = sprintf("%990s", ""); gsub(/ /, "x", pad); print "y,a,b"
		for (i = 0; i < 9000; i++) print i % 2 "," i % 100 "," i % 7 pad }' >d.csv
}

# said_by WORDS: how many workers' logs have them.
said_by() { cat run/state/logs/w?.log 2>/dev/null | grep -c "$1" || true; }

@test "a job of several epochs makes a cache while it runs, says so, reads from it, and trains each row as often" {
	wide_data
	job MODEL=audit EPOCHS=6 BATCH=64,shard:4
	slow 4000
	begin first
	wait_for '[ "$(said_by "later epochs read rows from a row cache: .* in $T/run/state/index; FORMAT=cache:off")" = 1 ]'
	# Soon: another worker, which began one, too, may still be removing it.
	wait_for '[ "$(ls run/state/index)" = "$(cd run/state/index && ls d.csv.*.rowcache d.csv.*.rowidx)" ]'
	rm drag/*
	ended "$SUPERVISOR"
	[ "$status" -eq 0 ]
	[ "$(said_by "rows came from row caches")" = 2 ]
	exact "$(ckpt latest run/state/checkpoints)" 9000 6
}

@test "FORMAT=cache:off, and one epoch: nothing is made; a cache beside the data is read unless off, and none is made beside it" {
	wide_data
	printf '%s\n' 'schema version=1 format=csv label=y scale=none' 'dense name=a' 'sparse name=b' end >schema
	rowidx --pack schema d.csv
	rm d.csv.rowidx
	job MODEL=lr,scale:none EPOCHS=2 FORMAT=cache:off SEED=7 WORKERS=1 SERVERS=1
	run_job >out
	[ "$(said_by "row cache")" = 0 ]
	[ "$(cd run/state/index && echo *)" = "$(cd run/state/index && echo d.csv.*.rowidx)" ]
	predict -c "$(ckpt latest run/state/checkpoints)" d.csv >off
	# FREE to change, but the model is made anew.
	run_job --fresh --set FORMAT=cache:on --set EPOCHS=1 >out
	[ "$(said_by "9000 rows came from row caches")" = 1 ]
	[ "$(cd run/state/index && echo *)" = "$(cd run/state/index && echo d.csv.*.rowidx)" ]
	run_job --fresh --set FORMAT=cache:on >out
	[ "$(said_by "18000 rows came from row caches")" = 1 ]
	[ "$(cd run/state/index && echo *)" = "$(cd run/state/index && echo d.csv.*.rowidx)" ]
	predict -c "$(ckpt latest run/state/checkpoints)" d.csv | cmp - off
}

@test "a cache that does not fit is told once, and text is read" {
	wide_data
	printf '%s\n' 'schema version=1 format=csv label=y scale=none' 'dense name=a' 'sparse name=b' end >schema
	rowidx --pack schema d.csv
	touch -d '1 hour ago' d.csv
	job MODEL=lr,scale:none WORKERS=1 SERVERS=1
	run_job >out
	[ "$(said_by "d.csv.rowcache: stale: the data file was changed since; the text of these rows is read")" = 1 ]
	[ "$(said_by "rows came from row caches")" = 0 ]
	rowidx --pack schema d.csv
	truncate -s -1 d.csv.rowcache
	run_job --fresh >out
	[ "$(said_by "d.csv.rowcache: damaged row cache: cut short; the text of these rows is read")" = 1 ]
	[ "$(said_by "rows came from row caches")" = 0 ]
}

@test "no room for a cache: it is told by one worker, nothing is left of it, and the job goes on" {
	wide_data
	# Many keys make the cache larger than what a file may have here.
	awk 'BEGIN { for (i = 0; i < 9000; i++) { line = i % 2; for (k = 1; k < 200; k++) line = line " " k ":" k % 7; print line } }' >d.svm
	job DATA="$T/d.svm" FORMAT=libsvm LABEL= DENSE= SPARSE= MODEL=lr EPOCHS=3
	slow 100 # the row cache is made at once, whatever the pace
	(ulimit -f 6000 && begin first && echo "$SUPERVISOR" >pid)
	SUPERVISOR=$(<pid)
	wait_for '[ "$(said_by "there will be no row cache, and all epochs read text: .*rowcache: write: File too large")" = 1 ]'
	rm drag/*
	wait_for 'gone "$SUPERVISOR"'
	[[ $(summary first.out) == *" state=done "* ]]
	[ "$(said_by "there will be no row cache")" = 1 ]
	[ -z "$(ls run/state/index | grep rowcache)" ]
}
