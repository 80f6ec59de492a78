#!/usr/bin/env bats
load helper
# rooms: shard work param model

# A job of one worker that is stopped in the middle of an epoch, or killed as a whole, and goes on, or of which
# all die but the worker, or whose servers become more, go back to a checkpoint, and become fewer: it ends with
# the bytes that it would have had without a break, parameters and what the optimizer knows of them. (The rows of
# a worker that dies go to the end of their epoch: one of them may be why.)

rows() {
	awk -v n="$1" 'BEGIN { srand(5); print "yes,kind,price,a,b,c,d"; for (i = 0; i < n; i++) {
		a = rand(); b = rand(); c = int(40 * rand()); d = int(9 * rand())
		printf "%d,k%d,%.3f,%.4f,%.4f,c%d,d%d\n", (a + b + c % 2 + rand() > 1.8), int(3 * a), 3 * a + b + rand(),
			a, b, c, d } }' >d.csv
}

# images: as many, of 6 x 6, black but for the line of the label's number.
images() {
	python3 - "$1" <<-'END'
		import random, struct, sys
		count = int(sys.argv[1])
		random.seed(5)
		labels = [random.randrange(6) for n in range(count)]
		with open("images-idx3-ubyte", "wb") as f:
		    f.write(struct.pack(">4B3I", 0, 0, 8, 3, count, 6, 6))
		    for label in labels:
		        f.write(bytes(random.randrange(200, 256) if i // 6 == label else 0 for i in range(36)))
		with open("labels-idx1-ubyte", "wb") as f:
		    f.write(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))
	END
}

# trained OUT: to the end; the job's last checkpoint is in OUT then.
trained() {
	rm -f drag/w?
	run_job >"$1.out" 2>"$1.err" 3>&- || { cat "$1.err"; return 1; }
	taken "$1"
}

taken() {
	mv "$(ckpt latest run/state/checkpoints)" "$1"
	rm -rf run
}

# begun NAME: it is in the middle of an epoch, and creeps.
begun() {
	echo "drag speed=$PACE" >drag/w0
	begin "$1"
	wait_for 'came_to 700'
}

same() { # OUT
	local file
	for file in layout model schema part-0 part-1; do [ ! -e "whole/$file" ] || cmp "whole/$file" "$1/$file"; done
}

# without_a_trace LABEL|images MODEL [KEY=VALUE]...
without_a_trace() {
	echo "# $*"
	local about=("DATA=$T/d.csv" FORMAT=csv "LABEL=$1" DENSE=a,b SPARSE=c,d)
	[ "$1" != images ] || about=("DATA=$T/images-idx3-ubyte")
	printf '%s\n' JOB=j "${about[@]}" "MODEL=$2" BATCH=64,shard:4 \
		WORKERS=1 SERVERS=2 EPOCHS=2 CHECKPOINT=end "${@:3}" >job.env
	slow 800
	trained whole
	begun begun
	trainctl stop --run-dir run
	ended "$SUPERVISOR"
	[ "$(last begun.out state)" = stopped ]
	trained stopped
	same stopped
	begun begun
	trainctl checkpoint --run-dir run
	wait_for "came_to $((64 * $(field iteration <"$(ckpt latest run/state/checkpoints)/MANIFEST") + 1))"
	kill -9 "$SUPERVISOR" $(record_pids <(cat run/state/nodes/*.[0-9]*))
	ended "$SUPERVISOR"
	trained killed
	cat killed.err
	grep -q 'are trained again' killed.err
	same killed
	begun begun
	trainctl checkpoint --run-dir run
	[[ "$*" == *allreduce* ]] || strike ps1
	wait_for "came_to 700"
	strike shardd
	kill -9 "$SUPERVISOR"
	ended "$SUPERVISOR"
	trained struck
	same struck
	if [[ "$*" != *allreduce* ]]; then
		begun scaled
		trainctl scale --run-dir run --servers 3
		trainctl checkpoint --run-dir run
		trainctl scale --run-dir run --servers 4
		strike ps2
		wait_for '[ "$(logged "^rollback ")" = 1 ]'
		wait_for running
		trainctl scale --run-dir run --servers 2
		rm drag/w?
		ended "$SUPERVISOR"
		taken scaled
		ckpt export whole whole.safetensors # rows of a table lie in another order now
		ckpt export scaled scaled.safetensors
		cmp whole.safetensors scaled.safetensors
	fi
	rm -rf whole* stopped killed struck scaled*
}

@test "stopped, killed as a whole, or with other servers: the same bytes in the end as without a break" {
	rows 1000
	without_a_trace yes wdl,embed:4,hidden:8 SHUFFLE=samples OPTIMIZER=adam,schedule:cosine,steps:20,warmup:5,clip:0.5
}

# bats test_tags=long
@test "the same, of each model and optimizer" {
	rows 1000
	without_a_trace yes lr OPTIMIZER=sgd,schedule:step,steps:9,l2:0.01
	without_a_trace yes lr SHUFFLE=samples WORKERS=ahead:1
	without_a_trace yes lr SHUFFLE=shards SYNC=allreduce WORKERS=ahead:3
	without_a_trace yes svm SHUFFLE=samples OPTIMIZER=ftrl
	without_a_trace yes fm,embed:4 SHUFFLE=samples OPTIMIZER=momentum,decay:0.01
	without_a_trace yes deepfm,embed:4,hidden:8 SHUFFLE=samples
	without_a_trace yes dcn,embed:4,hidden:8,cross:2 SHUFFLE=samples
	without_a_trace yes xdeepfm,embed:4,hidden:8,cin:4-4 SHUFFLE=samples OPTIMIZER=adam
	without_a_trace yes ffm SHUFFLE=samples
	without_a_trace kind mlp,embed:4,hidden:8 SHUFFLE=samples OPTIMIZER=momentum
	without_a_trace kind softmax SHUFFLE=samples OPTIMIZER=adam,warmup:9
	without_a_trace price linear SHUFFLE=shards OPTIMIZER=clip:0.1
	images 1000
	without_a_trace images conv,image:6-6-1,channels:4-4 SHUFFLE=samples OPTIMIZER=adam
	without_a_trace yes audit,counts:1
}
