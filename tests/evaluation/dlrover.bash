# DLRover, Fig. 8: the tuned plans of Table 2 with one worker at a quarter of its cores, asynchronous, 512 rows a step,
# one of the five epochs of nine tenths of Criteo. TFJob gives each worker an equal part of the data, so it takes as long
# as its slowest worker: a job of its own. Seconds of a step, by Table 1: there one worker's compute is its cores' work
# (2.5 cores, 12 steps/s; 19.4 cores, 6.2 steps/s) spread over the cores that it has, the rest is as it was:
#   Wide & Deep  24 workers of 3 cores, 210 steps/s: 0.114, of which 0.069 compute; with 0.75 cores 0.323
#   xDeepFM      8 workers of 20 cores, 47.8 steps/s: 0.167, of which 0.156 compute; with 5 cores 0.637
dlrover() { # WORKERS PARTS STEP SLOW
	echo "job workers=$1 servers=1 sync=asp batch=$((512 * $1)) samples=$((41256000 / $2)) solution=none"
	echo "cost sample=$(awk "BEGIN { print $3 / 512 }") message=0.0002 commit=0.001"
	echo "device nodes=w0 speed=$(awk "BEGIN { print 512 / $4 }")"
}
dlrover_8() { # JOB TITLE WORKERS STEP SLOW PAPER REAL
	sim dlrover-$1-own < <(dlrover 1 $3 $4 $5)
	sim dlrover-$1-dds < <(dlrover $3 1 $4 $5)
	row DLRover-Fig-8 $6 $7 "a slow worker, $2, of TFJob's job time" dlrover-$1-dds / dlrover-$1-own
}
dlrover_8 wdl "Wide & Deep" 24 0.114 0.323 0.76 0.26
dlrover_8 xdeepfm xDeepFM 8 0.167 0.637 0.58 -

# All else by brain-plan.c of tests/bench: res-plan(1) decides, the nodes are computed by the published model of a step;
# and Fig. 9 by trainsim, too, with the same numbers, but each server is a queue of pushes, which all of its cores work on.
ROOT=$(cd "$HERE/../.." && pwd)
${CC:-cc} -O2 -std=c17 -D_GNU_SOURCE -I"$ROOT/lib" -o "$T/plan" "$ROOT/tests/bench/brain-plan.c" \
	"$(dirname "$(command -v trainsim)")/../lib/paceline.a" -Wl,--as-needed -levent -lxxhash -lm
plan() { # OPTIONS SEED
	"$T/plan" "${@:1:$#-1}" -s "${@: -1}" | sed 's/^/summary state=done /; s/ seconds=/ jct=/'
}
plan_rate() { # OPTIONS SEED: with steps a second, of the whole job and with the last plan
	plan "$@" | awk -v best="$("$T/plan" -j $2 -t | cut -d' ' -f2)" '{
		split($0, jct, "jct="); split($0, last, "throughput=")
		print $0, "rate=" 402900 / jct[2], "last=" best * last[2] }'
}
plan_rival() { # NAME JOB ADD-WORKERS ADD-SERVERS: a program
	local number words=
	for number in $("$T/plan" -j $2 -n); do words="$words -v $number"; done
	printf '#!/bin/sh\nexec awk -v way=%s -v add_w=%s -v add_s=%s%s -f %s\n' $1 $3 $4 "$words" \
		"$ROOT/tests/bench/brain-plan-rival.awk" >"$T/$1-$2"
	chmod +x "$T/$1-$2"
}

# BRAIN: on, or a program. Without more time for IO where there are more workers, and with no tensor that is hot.
plan_sim() { # JOB BRAIN WORKER-CORES WORKER-BYTES SERVER-BYTES
	"$T/plan" -j $1 -n | awk -F = -v program=$2 -v cores=$3 -v worker=$4 -v server=$5 '{ v[$1] = $2 } END {
		printf "job workers=1 servers=1 sync=asp batch=512 shard=512 samples=206284800 scaling=linear most-workers=256"
		print " most-servers=40 solution=none"
		printf "cost sample=%.9g pull=%g apply=%.9g", v["wc"] / (cores < v["wm"] ? cores : v["wm"]) / 512, v["io"], v["wu"] / 16
		print " message=0.0002 commit=0.001 start=120 start-server=120 hand-over=1"
		printf "brain program=%s cores=200 node-cores=32 worker-cores=%d server-cores=16 worker-most=%g", program, cores, v["wm"]
		printf " memory=206158430208 node-memory=206158430208 worker-bytes=%.0f server-bytes=%.0f\n", worker * 2 ^ 30 / 1.2, \
			server * 2 ^ 30 / 1.2 }'
}

# Table 1: what one worker and one server used, and the plan that follows.
plan_sample() { # STEPS WORKER-USED SERVER-USED SEED
	printf 'job batch=512 steps-per-second=%s\nnode role=worker id=w0 cores=32 used=%s\nnode role=server id=0 cores=16 used=%s\n' \
		$1 $2 $3 | res-plan --cores 200 --node-cores 32 --stage optimize | awk '
		{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[$2, f[1]] = f[2] } }
		END { print "summary state=done workers=" v["role=worker", "count"], "cores=" v["role=worker", "cores"], \
			"servers=" v["role=server", "count"] }'
}
plan_all() { # JOB TITLE STEPS WORKER-USED SERVER-USED WORKERS CORES SERVERS RATE LAST ADD SLOW-SERVER OPTIMUS REAL BYTES
	local of=$6,$7,$8,16
	made plan-$1-1 plan_sample $3 $4 $5
	made plan-$1-tuned plan_rate -j $1 -S -p $of
	made plan-$1-ours plan_rate -j $1 -b on
	row DLRover-Table-1 $6 - "$2, workers" plan-$1-1 = workers
	row DLRover-Table-1 $7 - "cores of each" plan-$1-1 = cores
	row DLRover-Table-1 $8 - "servers of 16 cores" plan-$1-1 = servers
	row DLRover-Table-1 $9 - "steps a second with this plan" plan-$1-tuned = rate
	row DLRover-Table-1 ${10} - "with the last plan" plan-$1-ours = last
	row DLRover-Table-2 "almost 1" - "$2, begun with one worker, of the job time with the well-tuned plan" \
		plan-$1-ours / plan-$1-tuned

	plan_rival optimus $1 ${11}
	plan_rival workers $1 ${11}
	made plan-$1-optimus plan -j $1 -b "$T/optimus-$1" -p 1,$7,1,16
	made plan-$1-workers plan -j $1 -b "$T/workers-$1" -p 1,$7,1,16
	row DLRover-Fig-9 "${13}" - "$2, of Optimus' job time" plan-$1-ours / plan-$1-optimus
	row DLRover-Fig-9 "${13}" - "of worker-only auto-scaling's" plan-$1-ours / plan-$1-workers
	row DLRover-Fig-9 "$([ $1 = wdl ] && echo "less than 720" || echo -)" - "seconds until 0.97 of the well-tuned plan's pace" \
		plan-$1-ours = best-at

	sim plan-$1-sim < <(plan_sim $1 on 32 ${15})
	sim plan-$1-sim-optimus < <(plan_sim $1 "$T/optimus-$1" $7 ${15})
	row DLRover-Fig-9 "${13}" - "servers as queues: of Optimus' job time" plan-$1-sim / plan-$1-sim-optimus

	made plan-$1-slow plan -j $1 -S -p $of -k server
	made plan-$1-slow-ours plan -j $1 -b on -p $of -k server
	row DLRover-Fig-8 ${12} "${14}" "a slow server, $2, of TFJob's job time" plan-$1-slow-ours / plan-$1-slow
}
plan_all wdl "Wide & Deep" 12 2.5 5.7 24 3 8 210 258 "4 2" 0.58 "less than 0.7" "0.53 to 0.60" "4 64"
plan_all xdeepfm xDeepFM 6.2 19.4 3.1 8 20 2 47.8 56 "1 1" 0.75 "less than 0.9" - "8 16"
