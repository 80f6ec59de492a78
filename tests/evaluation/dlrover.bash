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
dlrover_8 wdl "Wide & Deep" 24 0.114 0.323 0.76 0.47
dlrover_8 xdeepfm xDeepFM 8 0.167 0.637 0.58 0.29
