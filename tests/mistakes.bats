# rooms: job
load helper

# What a user may do wrong, as a transcript: the command behind `$ `, what it prints, and its exit
# status behind `= `. A message says where (file:line:column, an option, a key), what is wrong, why,
# and what to do about it.  `...` stands for anything; DIR is the directory of the test, in which there
# are d.csv (columns y,a,b) and job.env.

setup_more() {
	data 100
	printf '%s\n' JOB=tiny DATA=d.csv LABEL=y DENSE=a SPARSE=b BATCH=16 WORKERS=1 >job.env
}

# transcript: from standard input. All commands run, one after the other, in DIR.
transcript() {
	local read command=
	: >want
	while IFS= read -r read; do
		case $read in
		'$ '*) command=${read#??} ;;
		'= '*)
			run --keep-empty-lines timeout 300 bash -o pipefail -c "$command" </dev/null
			printf '%s' "${output//$T/DIR}" >got
			compare "$command" "${read#= }"
			: >want
			;;
		*) printf '%s\n' "$read" >>want ;;
		esac
	done
}

# compare COMMAND STATUS: got and $status, with want.
compare() {
	local pattern
	pattern=$(sed 's/[][*?\\()|@+!]/\\&/g; s/\.\.\./*/g' want)
	# shellcheck disable=SC2053
	if [[ "$(cat got)" == $pattern ]] && [ "$status" = "$2" ]; then return 0; fi
	echo "\$ $1"
	cat got
	echo
	echo "= $status, not:"
	cat want
	echo "= $2"
	false
}

# ---- the command line ----

@test "trainctl: no such command" {
	transcript <<'E'
$ trainctl rn job.env
trainctl: unknown command 'rn'; the nearest is run
trainctl: --help shows the usage
= 64
$ trainctl resume job.env
trainctl: unknown command 'resume'; `trainctl run JOB.env` does that
trainctl: --help shows the usage
= 64
E
}

@test "trainctl run: no job file" {
	transcript <<'E'
$ trainctl run
trainctl: run: which job file?
trainctl: --help shows the usage
= 64
E
}

@test "an option mistyped, cut short, without its value, with one too many" {
	transcript <<'E'
$ trainctl run job.env --frsh
trainctl: unknown option --frsh; the nearest is --fresh
trainctl: --help shows the usage
= 64
$ trainctl run job.env --st LABEL=y
trainctl: --st could be --set, --state-dir: write it in full
trainctl: --help shows the usage
= 64
$ trainctl run job.env --rows
trainctl: option needs a value: --rows
trainctl: --help shows the usage
= 64
$ trainctl run job.env --fresh=1
trainctl: option takes no value: --fresh=1
trainctl: --help shows the usage
= 64
E
}

@test "trainctl run: --set without a value, a value without --set" {
	transcript <<'E'
$ trainctl run job.env WORKERS=2
trainctl: a key is set with --set: --set 'WORKERS=2'
trainctl: --help shows the usage
= 64
$ trainctl run job.env --set BATCH
trainctl: --set: 'BATCH' is not KEY=VALUE
trainctl: --help shows the usage
= 64
E
}

@test "an option's number is no number" {
	transcript <<'E'
$ trainctl run job.env --report-every 9
trainctl: --report-every is --rows now
trainctl: --help shows the usage
= 64
$ trainctl run job.env --rows soon
trainctl: --rows: 'soon' is not a number
trainctl: --help shows the usage
= 64
$ shardd -s s -j j -n 0
shardd: --samples: 0 is less than 1
shardd: --help shows the usage
= 64
$ bs-solve -B ten
bs-solve: --global-batch: 'ten' is not a whole number
bs-solve: --help shows the usage
= 64
$ trainctl scale -j tiny --servers 1.5
trainctl: --servers: '1.5' is not a whole number
trainctl: --help shows the usage
= 64
E
}

@test "an option's word is none of those there are" {
	transcript <<'E'
$ shardd -s s -j j -n 10 --shuffle yes
shardd: --shuffle: 'yes' is none of none|shards|samples
shardd: --help shows the usage
= 64
$ speed-predict --model gru </dev/null
speed-predict: --model: 'gru' is none of last|ema|...
speed-predict: --help shows the usage
= 64
E
}

@test "an id that can't be one" {
	transcript <<'E'
$ trainctl status -j my/job
trainctl: --job: 'my/job' is no id (1 to 64 of letters, digits, . _ -)
trainctl: --help shows the usage
= 64
E
}

@test "an option that is needed" {
	transcript <<'E'
$ worker --id w0
worker: --id, --shards, --servers (or --replica and --lead), --data, --schema and --model-file are needed
worker: --help shows the usage
= 64
$ worker --id w0 --shards s --servers p --data d.csv --schema schema --model-file lr --delay 1
worker: --delay: is for --replica
worker: --help shows the usage
= 64
$ worker --id w0 --shards s --lead l --replica r --data d.csv --schema schema --model-file lr --memory m
worker: --memory: is for --servers
worker: --help shows the usage
= 64
$ worker --id w0 --shards s --servers p --data d.csv --schema schema --model-file lr --device gpu
worker: --device: 'gpu' is none of cpu|cuda[:N[+N]...][+tf32]|auto
worker: --help shows the usage
= 64
$ worker --id w0 --shards s --servers p --data d.csv --schema schema --model-file lr --predict none --predict-save p
worker: --predict-save: is for --predict MODEL
worker: --help shows the usage
= 64
$ ps-server -s s --id p --layout l --l1 0.1
ps-server: --l1: is for --optimizer ftrl
ps-server: --help shows the usage
= 64
$ ps-server -s s --id p --layout l --momentum 0.5
ps-server: --momentum: is for --optimizer momentum
ps-server: --help shows the usage
= 64
$ shardd -s s -j journal -n 100 -b 10 -m 1 --migrate 3
shardd: --migrate: is for --partitions
...
= 64
$ xfer-sched --momentum 0.5
xfer-sched: --momentum: is for --divergence-max
xfer-sched: --help shows the usage
= 64
$ xfer-sched -m round --margin 5
xfer-sched: --mode round: plans no transfers: of the other options only --strict goes with it
xfer-sched: --help shows the usage
= 64
$ agent --id w0 --shards s --each --ahead 3 -- true
agent: --ahead: needs a --lead
agent: --help shows the usage
= 64
$ agent --id w0
agent: --id, --shards, a COMMAND, and --lead, --rows or --each are needed
agent: --help shows the usage
= 64
$ agent --id w0 --shards s --lead l --rank 2/2 -- true
agent: --rank: '2/2' is not I/N; 0/2 is the first of two
agent: --help shows the usage
= 64
$ agent --id w0 --shards s --lead l --env =x -- true
agent: --env: '=x' is not NAME=VALUE
agent: --help shows the usage
= 64
$ predict d.csv
predict: give -c CHECKPOINT, or -j JOB for its newest one
predict: --help shows the usage
= 64
$ bpt-monitor --short 600 --long 5 -s m
bpt-monitor: --short: 600 is longer than --long 5
bpt-monitor: --help shows the usage
= 64
$ trainctl scale -j tiny
trainctl: scale: what is to change? Give --workers N, --servers N or --hosts H1,H2,...
trainctl: --help shows the usage
= 64
E
}

@test "benches and crash tests: --help shows what the head says, an option that it does not name is refused" {
	local test name
	for test in "$PACELINE_ROOT"/tests/bench/* "$PACELINE_ROOT"/tests/fault/*; do
		name=${test##*/}
		[[ $name != *.* ]] || continue
		run -0 timeout 30 "$test" --help
		[ "${lines[0]}" = "$(sed -n '2s/^# //p' "$test")" ]
		[[ $output == *--short* ]]
		run -64 timeout 30 "$test" --short --shortt
		[ "$output" = "$name: unknown option --shortt; --help shows the usage" ]
	done
}

# ---- the job file ----

@test "job file: it is not there, or is none" {
	transcript <<'E'
$ trainctl run nothing.env
trainctl: nothing.env: can't be read: No such file or directory
= 66
$ trainctl run .
trainctl: .: is a directory; a file is needed
= 66
$ trainctl run d.csv
trainctl: d.csv:1: 'y,a,b': is not KEY=value (no blanks around =, no export); if these are data, `trainctl init` makes their job file
= 78
$ sed 's/$/\r/' d.csv >dos.csv; trainctl run dos.csv 2>&1 | tr -d '\r'
trainctl: dos.csv:1: 'y,a,b?': is not KEY=value (no blanks around =, no export); if these are data, `trainctl init` makes their job file
= 78
$ head -c 9 /dev/zero >zeros; trainctl run zeros
trainctl: zeros:1: holds a NUL byte: this is no text; if these are data, `trainctl init` makes their job file
= 78
E
}

@test "job file: a line that is no KEY=value" {
	transcript <<'E'
$ printf 'JOB=x\nBATCH = 64\n' >j.env; trainctl run j.env
trainctl: j.env:2: 'BATCH = 64': is not KEY=value (no blanks around =, no export)
= 78
E
}

@test "job file: blanks, quotes, what sh would expand" {
	transcript <<'E'
$ printf 'DATA=a b\n' >j.env; trainctl run j.env
trainctl: j.env:1: DATA: text behind the value, which sh and systemd read differently: put the whole value in single quotes
= 78
$ printf 'DATA="a b\n' >j.env; trainctl run j.env
trainctl: j.env:1: DATA: the double quote is not closed on its line
= 78
$ printf 'DATA=$HOME/d.csv\n' >j.env; trainctl run j.env
trainctl: j.env:1: DATA: a value without quotes can't hold any of | & ; < > ( ) $ ` \ " '; put it in single quotes, which keep all characters
= 78
$ printf 'DATA=~/d.csv\n' >j.env; trainctl run j.env
trainctl: j.env:1: DATA: sh would expand the ~ at the beginning or behind a colon; write the whole directory
= 78
$ printf 'METRICS=unix:~/x.sock\n' >j.env; trainctl run j.env
trainctl: j.env:1: METRICS: sh would expand the ~ at the beginning or behind a colon; write the whole directory
= 78
E
}

@test "job file: DOS line ends" {
	transcript <<'E'
$ printf 'JOB=x\r\n' >j.env; trainctl run j.env
trainctl: j.env:1: ends in a carriage return (DOS line ends); this removes them: sed -i 's/\r$//' FILE
= 78
E
}

@test "job file: a key mistyped" {
	transcript <<'E'
$ printf 'JOB=x\nWORKER=2\n' >j.env; trainctl run j.env
trainctl: j.env:2: unknown key WORKER; the nearest is WORKERS
= 78
$ trainctl run job.env --set BATCHS=3
trainctl: --set: unknown key BATCHS; the nearest is BATCH
= 78
$ trainctl run job.env --set lr=0.1
trainctl: --set: unknown key lr; OPTIMIZER has such a part: OPTIMIZER=lr:VALUE
= 78
$ trainctl run job.env --set DROPOUT=0.1
trainctl: --set: unknown key DROPOUT; `trainctl init --keys` lists all keys
= 78
E
}

@test "job file: what every job needs" {
	transcript <<'E'
$ printf 'DATA=d.csv\n' >j.env; trainctl run j.env
trainctl: j.env: no JOB: a job needs a name, like JOB=try
= 78
$ printf 'JOB=x\n' >j.env; trainctl run j.env
trainctl: j.env: no DATA: which file is to be trained on?
= 78
E
}

@test "job file: a value out of its range" {
	transcript <<'E'
$ trainctl run job.env -s BATCH=0
trainctl: --set: BATCH: 0 is not in 1..1000000000
= 78
$ printf 'JOB=x\nMODEL=hash-bits:64\n' >j.env; trainctl run j.env
trainctl: j.env:2: MODEL hash-bits: 64 is not in 1..31
= 78
$ trainctl run job.env -s MODEL=wdl,embed:0
trainctl: --set: MODEL embed: 0 is not in 1..1024
= 78
$ trainctl run job.env -s MODEL=dcn,cross:0
trainctl: --set: MODEL cross: 0 is not in 1..16
= 78
$ trainctl run job.env -s MODEL=dcn,cross:10000
trainctl: --set: MODEL cross: 10000 is not in 1..16
= 78
$ trainctl run job.env -s MODEL=wdl -s SPARSE=
trainctl: model: wdl needs sparse columns (SPARSE), the same in every row; libsvm rows and images have none; lr does without
= 78
$ trainctl run job.env -s MODEL=xdeepfm,cin:65536-65536
trainctl: --set: MODEL cin: '65536' is no width of a layer (1..1024)
= 78
$ printf 'JOB=x\nKEEP=5\nCHECKPOINT_EVERY=0\nLR=0.1\n' >j.env; trainctl run j.env
trainctl: j.env:2: KEEP is a part of CHECKPOINT now, and other old keys are parts, too: OPTIMIZER=lr:0.1; CHECKPOINT=end,keep:5
= 78
$ printf 'JOB=x\nBATHC=9\nLR=0.1\nMODEL=hash-bits:64\nKEEP=5\nA B\nSERVER_CORES=2\n' >j.env; trainctl run j.env
trainctl: j.env:3: LR is a part of OPTIMIZER now, and other old keys are parts, too: OPTIMIZER=lr:0.1; SERVERS=cores:2; CHECKPOINT=keep:5
= 78
$ trainctl run job.env -s CHECKPOINT=60,kep:3
trainctl: --set: CHECKPOINT has no part kep; the nearest is keep
= 78
$ trainctl run job.env -s CHECKPOINT=60,keep
trainctl: --set: CHECKPOINT: keep has no value: write keep:VALUE
= 78
$ trainctl run job.env -s SOLUTION=even,lambda:2
trainctl: --set: SOLUTION=even has no lambda, which is of antdt-nd|pace
= 78
E
}

@test "job file: a value that is no number" {
	transcript <<'E'
$ trainctl run job.env -s BATCH=many
trainctl: --set: BATCH: 'many' is not a whole number
= 78
$ trainctl run job.env -s OPTIMIZER=lr:0,1
trainctl: --set: OPTIMIZER: '1' is not NAME:VALUE with one of its parts name, lr, l2, schedule, beta, steps, factor, warmup, decay, clip
= 78
$ trainctl run job.env -s SOLUTION=every:1w
trainctl: --set: SOLUTION every: '1w' is not a number of seconds (suffixes are s, m, h, d)
= 78
$ trainctl run job.env -s MODEL=hidden:64-x
trainctl: --set: MODEL hidden: 'x' is no width of a layer (1..65536)
= 78
E
}

@test "job file: a word that is none of those there are" {
	transcript <<'E'
$ trainctl run job.env -s MODEL=bert
trainctl: --set: MODEL: 'bert' is none of lr|wdl|fm|deepfm|dcn|xdeepfm|ffm|mlp|conv|softmax|svm|linear|audit|lda
= 78
$ trainctl run job.env -s OPTIMIZER=adamw
trainctl: --set: OPTIMIZER: 'adamw' is none of sgd|momentum|adagrad|adam|ftrl
= 78
$ trainctl run job.env -s SYNC=ssp
trainctl: --set: SYNC: 'ssp' is none of bsp|ssp:N|asp|allreduce
= 78
$ trainctl run job.env -s BAD_ROWS=5
trainctl: --set: BAD_ROWS: '5' is none of stop|skip:N
= 78
$ trainctl run job.env -s FORMAT=parquet
trainctl: --set: FORMAT: 'parquet' is none of auto|bag|cifar10|cifar100|criteo|csv|idx|libsvm|tsv|lines
= 78
$ trainctl run job.env -s BRAIN=yes
trainctl: --set: BRAIN: 'yes' is neither on nor off, and no executable
= 78
$ trainctl run job.env -s CHECKPOINT=memory:64M
trainctl: --set: CHECKPOINT memory: '64M' is neither off nor on nor a directory with a slash
= 78
E
}

@test "job file: a name of a job that can't be one" {
	transcript <<'E'
$ trainctl run job.env -s 'JOB=my job'
trainctl: --set: JOB: 'my job' is no id (1 to 64 of letters, digits, . _ -)
= 78
E
}

@test "job file: keys that do not fit together" {
	transcript <<'E'
$ trainctl run job.env -s WORKERS=32
trainctl: --set: BATCH=16 is less than one sample for each of WORKERS=32
= 78
$ trainctl run job.env -s WORKERS=3 -s SOLUTION=least:6
trainctl: --set: BATCH=16 is less than SOLUTION=least:6 samples for each of WORKERS=3
= 78
$ trainctl run job.env -s EVAL=5
trainctl: --set: EVAL scores TEST now and then, but there is no TEST
= 78
$ { cat job.env; echo EVAL=5; } >j.env; trainctl run j.env
trainctl: j.env:8: EVAL scores TEST now and then, but there is no TEST
= 78
$ trainctl run job.env -s EVAL=patience:2
trainctl: --set: EVAL patience counts scores of TEST, but TEST is scored only at the end: give EVAL=SECONDS
= 78
$ trainctl run job.env -s MONITOR=long:5
trainctl: --set: MONITOR=long:5 is shorter than short:300
= 78
$ trainctl run job.env -s SYNC=allreduce,delay:2
trainctl: --set: SYNC=allreduce,delay:N: while workers compute one batch, one sum is made, so N is 1 at most
= 78
$ trainctl run job.env -s SOLUTION=lb-bsp -s SYNC=asp
trainctl: --set: SOLUTION=lb-bsp sets sizes at the barrier; SYNC=asp has none: SYNC=bsp and SYNC=allreduce have one
= 78
$ trainctl run job.env -s PARTITIONS=local -s WORKERS=2
trainctl: --set: PARTITIONS=local needs a file of DATA for each worker: 1 files, WORKERS=2
= 78
$ trainctl run job.env -s PARTITIONS=local -s WORKERS=1,spares:1
trainctl: --set: WORKERS spares: with PARTITIONS=local a spare does not have the rows of another worker
= 78
$ trainctl run job.env -s BRAIN=on -s SYNC=allreduce
trainctl: --set: BRAIN finds how many workers and servers there are; with TRAINER or SYNC=allreduce there are no servers: BRAIN=off
= 78
$ trainctl run job.env -s REBALANCE=on -s SYNC=allreduce
trainctl: --set: REBALANCE moves keys between servers; with TRAINER or SYNC=allreduce there are no servers: REBALANCE=off
= 78
$ trainctl run job.env -s SERVERS=standby:on -s SYNC=allreduce
trainctl: --set: SERVERS=standby:on is for parameter servers; with TRAINER or SYNC=allreduce there are none: standby:off
= 78
$ trainctl run job.env -s BRAIN=on,cores:1
trainctl: --set: BRAIN=cores:1: a worker and a server need one core each, at least 2 together
= 78
E
}

@test "job file: keys that do not fit a trainer of your own" {
	transcript <<'E'
$ trainctl run job.env -s SAMPLES=5
trainctl: --set: SAMPLES is for a TRAINER of your own; the kit's own worker counts the rows of DATA
= 78
$ trainctl run job.env -s EACH_OUTPUT=out
trainctl: --set: EACH_OUTPUT is for a TRAINER of your own
= 78
$ trainctl run job.env -s FORMAT=lines
trainctl: --set: FORMAT=lines is for a TRAINER of your own: the kit's own worker has to know the columns
= 78
$ trainctl run job.env -s TRAINER=true -s SAMPLES=5
trainctl: --set: SAMPLES and DATA both say how many samples there are: give one of them
= 78
$ printf 'JOB=x\nTRAINER=true\n' >t.env; trainctl run t.env
trainctl: t.env: no SAMPLES and no DATA: how many samples are there? Give SAMPLES=N, or DATA, and its rows are counted
= 78
$ trainctl run t.env -s SAMPLES=5 -s TRAINER_KIND=rows
trainctl: --set: TRAINER_KIND=rows gives rows of DATA, but there is no DATA
= 78
$ trainctl run t.env -s SAMPLES=5 -s TRAINER_KIND=row
trainctl: --set: TRAINER_KIND: 'row' is none of loop|each|rows
= 78
$ trainctl run t.env -s SAMPLES=5 -s EACH_OUTPUT=out
trainctl: --set: EACH_OUTPUT is for TRAINER_KIND=each
= 78
$ trainctl run t.env -s SAMPLES=5 -s TRAINER_KIND=jobs:2
trainctl: --set: TRAINER_KIND=loop has no jobs, which is of each
= 78
$ trainctl check t.env -s SAMPLES=5 -s 'TRAINER=exec pythn3 train.py'; echo $?
trainctl: TRAINER: pythn3: no such program here
127
= 0
$ trainctl run job.env -s TRAINER=true -s TEST=d.csv
trainctl: --set: TEST is scored with models of the kit; a TRAINER scores its own
= 78
$ trainctl run job.env -s TRAINER=true -s TRAINER_KIND=each -s SYNC=allreduce
trainctl: --set: SYNC=allreduce adds up gradients of an iteration, and only TRAINER_KIND=loop has iterations
= 78
$ trainctl run job.env -s TRAINER=true -s SYNC=allreduce,delay:1
trainctl: --set: SYNC=allreduce,delay:1 sums while the next batch is computed, but a TRAINER makes its step before it asks for a batch
= 78
$ trainctl run job.env -s TRAINER=true -s SYNC=allreduce -s SOLUTION=backup:1
trainctl: --set: SOLUTION=backup:N ends iterations without the slowest workers, but a TRAINER that is left out lacks a step, and would need the state of another one, for which all wait: use SOLUTION=antdt-nd or pace, which give a slow one fewer rows
= 78
$ trainctl run job.env -s TRAINER=true -s TRAINER_KIND=each -s SOLUTION=even
trainctl: --set: SOLUTION decides on iterations, which only TRAINER_KIND=loop has
= 78
E
}

@test "job file: files that it includes" {
	transcript <<'E'
$ printf 'JOB=x\nINCLUDE=nothing.env\n' >j.env; trainctl run j.env
trainctl: j.env:2: nothing.env: can't be read: No such file or directory
= 66
$ printf 'JOB=x\nINCLUDE=j.env\n' >j.env; trainctl run j.env
trainctl: j.env:2: INCLUDE: j.env is being read already: it would include itself
= 78
E
}

@test "job file: what is taken from elsewhere" {
	transcript <<'E'
$ trainctl run job.env -s INIT=nothing
trainctl: DIR/nothing: INIT: No such file or directory
= 66
$ mkdir some; trainctl run job.env -s INIT=some
trainctl: DIR/some: INIT: is no checkpoint, it has no MANIFEST; those of a job are in STATE/checkpoints/NUMBER
= 66
$ trainctl run job.env -s SOLUTION=lb-bsp -s PREDICT_FROM=nothing
trainctl: DIR/nothing: PREDICT_FROM: No such file or directory
= 66
$ trainctl run job.env -s DRAG=nothing --run-dir run | tail -n 1
trainctl: DRAG: DIR/nothing is not there: nothing is slowed until it is
summary job=tiny state=done ...
= 0
$ trainctl run job.env -s METRICS=prometheus
trainctl: --set: METRICS: 'prometheus' is none of DIR/NAME.prom, DIR/, unix:SOCKET or http://[ADDRESS]:PORT
= 78
E
}

@test "job file: a template of a launcher" {
	transcript <<'E'
$ trainctl run job.env -s 'LAUNCH_WORKER=taskset -c %x'
trainctl: --set: LAUNCH_WORKER: '%x' in column 12 is unknown: use %i, %n, %h, %cores, %mem, or %% for a percent sign
= 78
E
}

@test "job file: deadlines" {
	transcript <<'E'
$ trainctl run job.env -s HUNG=soon
trainctl: --set: HUNG: 'soon' is neither seconds nor never nor auto
= 78
$ trainctl run job.env -s HUNG=batch:5,sleep:3
trainctl: --set: HUNG: 'sleep:3' is not NAME:VALUE with one of its parts deadline, start, batch, exchange, checkpoint, hand-over, pause
= 78
E
}

# ---- columns ----

@test "columns: one that the header does not have" {
	transcript <<'E'
$ trainctl run job.env -s LABEL=yy
trainctl: DIR/d.csv:1: no column 'yy' in the header; the nearest is 'y'
= 65
$ trainctl run job.env -s LABEL=Y
trainctl: DIR/d.csv:1: no column 'Y' in the header; the nearest is 'y'
= 65
$ trainctl run job.env -s DENSE=a,price
trainctl: DIR/d.csv:1: no column 'price' in the header, which has 'y', 'a', 'b'
= 65
E
}

@test "columns: lists that are none" {
	transcript <<'E'
$ trainctl run job.env -s DENSE=a,,b
trainctl: job.env: DENSE: an empty name in the list
= 78
$ trainctl run job.env -s SPARSE=b,b
trainctl: job.env: SPARSE: 'b' appears twice
= 78
$ trainctl run job.env -s DENSE=a,y
trainctl: job.env: DENSE: 'y' is the LABEL, which is not known when rows are scored
= 78
$ trainctl run job.env -s MISSING=NA,
trainctl: job.env: MISSING: an empty name in the list
= 78
$ trainctl run job.env -s LABEL=
trainctl: job.env: LABEL: is needed with FORMAT=csv: the name of the column that the model learns
= 78
$ trainctl run job.env -s DENSE= -s SPARSE=
trainctl: job.env: DENSE: FORMAT=csv needs columns in DENSE or SPARSE
= 78
E
}

@test "columns: separators" {
	transcript <<'E'
$ tr , ';' <d.csv >s.csv; trainctl run job.env -s DATA=s.csv
trainctl: DIR/s.csv:1: no column 'y': the header has 1 column; did you mean FORMAT='csv,separator:;'?
= 65
$ trainctl run job.env -s FORMAT=tsv
trainctl: DIR/d.csv:1: no column 'y': the header has 1 column; did you mean FORMAT=csv?
= 65
$ trainctl run job.env -s FORMAT=separator:x
trainctl: job.env: FORMAT separator: 'x' is neither one character (no letter, digit, quote or sign of a number) nor the word tab
= 78
E
}

# ---- rows ----

@test "data: a file that is not there, or is none" {
	transcript <<'E'
$ trainctl run job.env -s DATA=nothing.csv
trainctl: ...nothing.csv: can't be read: No such file or directory
= 66
$ mkfifo f.csv; trainctl run job.env -s DATA=f.csv
trainctl: ...f.csv: is a pipe, but a file is needed: rows are read by number, ... Write one first: ...
= 66
$ trainctl run job.env -s DATA=-
trainctl: ...DATA: ...rows are read by ...
= 78
$ trainctl run job.env -s TEST=nothing.csv
trainctl: ...nothing.csv: can't be read: No such file or directory
= 66
E
}

@test "data: a file that may not be read" {
	[ "$(id -u)" != 0 ] || skip "root may read everything"
	transcript <<'E'
$ chmod 0 d.csv; trainctl run job.env
trainctl: DIR/d.csv: can't be read: Permission denied
= 77
E
}

@test "data: nothing in it" {
	transcript <<'E'
$ : >e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv: is empty: no header line
= 65
$ echo y,a,b >e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv: holds no rows, only the names of columns
= 65
E
}

@test "data: a format that the name does not tell" {
	transcript <<'E'
$ cp d.csv d.txt; trainctl run job.env -s DATA=d.txt
trainctl: job.env: no FORMAT, and the name of ...d.txt does not tell it: FORMAT is one of bag|cifar10|cifar100|criteo|csv|idx|libsvm|tsv
= 78
E
}

@test "data: a value that is no number" {
	transcript <<'E'
$ echo 1,NA,c1 >>d.csv; trainctl run job.env
trainctl: DIR/d.csv:102:3: a: 'NA' is not a number; MISSING= says which values mean a missing value; BAD_ROWS=skip:N leaves such rows out
= 65
$ echo 1,99 percent,c1 >d2.csv; cat d.csv d2.csv | sed 102d >e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv:102:3: a: '99 percent' is not a number; BAD_ROWS=skip:N leaves such rows out
= 65
E
}

@test "data: a row with too few fields, or too many" {
	transcript <<'E'
$ cp d.csv e.csv; echo 1,2 >>e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv:102:4: 2 fields instead of the header's 3; BAD_ROWS=skip:N leaves such rows out
= 65
$ cp d.csv e.csv; echo 1,2,c1,x >>e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv:102:8: 4 fields instead of the header's 3; BAD_ROWS=skip:N leaves such rows out
= 65
E
}

@test "data: labels" {
	transcript <<'E'
$ cp d.csv e.csv; echo ,2,c1 >>e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv:102:1: the label is empty; BAD_ROWS=skip:N leaves such rows out...
= 65
$ cp d.csv e.csv; echo 2,2,c1 >>e.csv; trainctl run job.env -s DATA=e.csv
trainctl: DIR/e.csv:102:1: label '2' is neither 0 nor 1; POSITIVE= says which value means 1. Labels of all 101 rows: ...; '2' (bad row): 1 row at e.csv:102
= 65
$ trainctl run job.env -s POSITIVE=yes
trainctl: DIR/d.csv: POSITIVE: no label is 'yes', so all 100 rows have label 0; BAD_ROWS=classes:any trains on them all the same
= 65
$ trainctl run job.env -s NEGATIVE=0
trainctl: job.env: NEGATIVE: needs POSITIVE
= 78
E
}

@test "data: documents" {
	printf 'JOB=tiny\nDATA=d.bag\nMODEL=lda,topics:2\nWORKERS=1\n' >lda.env
	transcript <<'E'
$ printf '0\n2 3:1 4:x\n' >d.bag; trainctl run lda.env
trainctl: DIR/d.bag:2:7: '4:x' is not word:count, with a count from 1 to 2^24; BAD_ROWS=skip:N leaves such rows out
= 65
$ printf '2 4294967296:1\n' >d.bag; trainctl run lda.env
trainctl: DIR/d.bag:1:3: '4294967296:1' is not word:count, with a word below 2^32; BAD_ROWS=skip:N leaves such rows out
= 65
$ printf '0\nempty\n' >d.bag; trainctl run lda.env
trainctl: DIR/d.bag: no document has a word
= 65
$ printf '2 3:1 4:1\n' >d.bag; printf '0\n1 3:1\n' >t.bag; trainctl run lda.env --set TEST=t.bag
trainctl: TEST: DIR/t.bag: has no document of two words or more, so nothing can be scored
= 65
$ printf '3:16777216\n3:1\n' >d.bag; trainctl run lda.env
trainctl: DIR/d.bag:2: word 3 occurs more than 2^24 times in all documents: leave such words out, they are in every topic
= 65
$ printf '3:16777216 4:1\n' >d.bag; trainctl run lda.env
trainctl: DIR/d.bag:1: one of 64 groups of documents has more than 2^24 words: no more can be counted
= 65
$ echo 3:1 >d.bag; trainctl run lda.env -s SYNC=asp
trainctl: --set: MODEL=lda takes a document's last topics back before it draws new ones, so what the last pass has committed must be in what a worker pulls: SYNC=bsp or SYNC=allreduce
= 78
$ trainctl run lda.env -s SYNC=allreduce,delay:1
trainctl: --set: MODEL=lda takes a document's last topics back before it draws new ones, so what the last batch has changed must be in what a worker pulls: SYNC=allreduce without delay
= 78
$ trainctl run lda.env -s PARTITIONS=local
trainctl: --set: MODEL=lda trains every document once in each pass; with PARTITIONS=local fast workers begin the next pass earlier: PARTITIONS=shared
= 78
$ trainctl run lda.env -s INIT=.
trainctl: --set: INIT: the parameters of MODEL=lda have the topics of each document of DATA, and nobody knows whether those of another checkpoint are of these documents
= 78
$ trainctl run lda.env -s FORMAT=libsvm
trainctl: --set: FORMAT=bag is for MODEL=lda, and MODEL=lda for no other format; here are FORMAT=libsvm and MODEL=lda
= 78
$ trainctl run lda.env -s MODEL=lr
trainctl: --set: FORMAT=bag is for MODEL=lda, and MODEL=lda for no other format; here are FORMAT=bag and MODEL=lr
= 78
$ trainctl run lda.env -s MODEL=hash-bits:20
trainctl: --set: MODEL=lda has no hash-bits, which is of lr|wdl|fm|deepfm|dcn|xdeepfm|ffm|mlp|conv|softmax|svm|linear|audit
= 78
E
}

@test "data: a quote that is never closed" {
	transcript <<'E'
$ echo '1,"2,c1' >>d.csv; trainctl run job.env
trainctl: DIR/d.csv:102: a quote is never closed
= 65
E
}

@test "data: a compressed file that is cut off" {
	transcript <<'E'
$ gzip -c d.csv | head -c 100 >e.csv.gz; trainctl run job.env -s DATA=e.csv.gz
trainctl: --set: DATA is compressed, so a worker must also decompress rows before its own (in a .zst, those of its frame: zstd writes one frame, pzstd frames of a few MB): text may train several times as fast (zcat FILE > FILE.csv; zstdcat of .zst)
trainctl: DIR/e.csv.gz: byte 100: the gzip data ends too early (truncated file?)
= 65
E
}

@test "keys: FABRIC where nothing is summed over hosts, and a part that plain does not have" {
	transcript <<'E'
$ trainctl run job.env -s FABRIC=plain,rounds:rate
trainctl: --set: FABRIC=plain has no rounds, which is of mlfabric
= 78
$ sed 1s/a/A/ d.csv >t.csv; trainctl run job.env -s TEST=t.csv -s FABRIC=mlfabric
trainctl: --set: FABRIC=mlfabric has no effect here: it is about sums over hosts, which only SYNC=allreduce has, and about pushes with a bound of their delay, SYNC delay
trainctl: TEST: DIR/t.csv:1: no column 'a' in the header; the nearest is 'A'
= 65
E
}

@test "keys: without an effect in a job of the kit" {
	# told KEY=VALUE...: what check says of keys without an effect.
	cat >told <<-'E'
	trainctl check job.env --run-dir run "${@/#/--set=}" 2>&1 >/dev/null | grep 'no effect'
	E
	transcript <<'E'
$ bash told TRAINER_KIND=each,grace:5,header:on PARTITIONS=migrate:3 BRAIN=every:5,cores:8 REBALANCE=gain:0.5 HUNG=pause:60 SERVERS=divergence:3 PREDICT_FROM=d.csv
trainctl: --set: PARTITIONS migrate has no effect here: rows move only with PARTITIONS=local
trainctl: --set: SERVERS divergence has no effect here: without standby:on no server has a standby
trainctl: --set: PREDICT_FROM has no effect here: speeds are predicted for SOLUTION=lb-bsp without predict:none
trainctl: --set: HUNG pause has no effect here: only a TRAINER of TRAINER_KIND=loop pauses
trainctl: --set: TRAINER_KIND, TRAINER_KIND grace, TRAINER_KIND header have no effect here: there is no TRAINER
trainctl: --set: BRAIN every, BRAIN cores have no effect here: without BRAIN nothing is planned
trainctl: --set: REBALANCE gain has no effect here: without REBALANCE=on no keys move
= 0
$ bash told SYNC=allreduce SERVERS=2,cores:1 HUNG=hand-over:60 FABRIC=mlfabric,rounds:ring
trainctl: --set: SERVERS has no effect here: with TRAINER or SYNC=allreduce there are no parameter servers
trainctl: --set: HUNG hand-over has no effect here: only parameter servers hand over
= 0
$ bash told SYNC=asp,delay:2 FABRIC=mlfabric,rounds:ring
trainctl: --set: FABRIC rounds has no effect here: only SYNC=allreduce sums gradients over hosts
trainctl: FABRIC=mlfabric has no effect here: only pushes between hosts take turns, and this job has one
= 0
$ bash told MODEL=audit OPTIMIZER=sgd,lr:0.5,l2:0.1 BAD_ROWS=classes:any
trainctl: --set: OPTIMIZER, OPTIMIZER lr, OPTIMIZER l2, BAD_ROWS classes have no effect here: MODEL=lda and audit count; they have neither a learning rate nor classes
= 0
$ bash told MODEL=audit OPTIMIZER=lr:auto,l2:0 BRAIN=every:60
= 1
$ cp d.csv e.csv; bash told DATA='d.csv e.csv' WORKERS=2 PARTITIONS=local,migrate:3 BATCH=scaling:linear
trainctl: --set: BATCH scaling has no effect here: the workers of such a job can't be scaled
= 0
E
}

@test "keys: without an effect with a TRAINER" {
	transcript <<'E'
$ printf '%s\n' JOB=x TRAINER=true SAMPLES=100 BATCH=16 CHECKPOINT=5,full:4,level:2,memory:on,keep:5 >t.env; trainctl check t.env --run-dir run 2>&1 >/dev/null
trainctl: t.env:5: CHECKPOINT full, CHECKPOINT level have no effect here: what is in a checkpoint is what the TRAINER saves
= 0
$ trainctl check t.env --run-dir run -s TRAINER_KIND=each 2>&1 >/dev/null
trainctl: t.env:5: CHECKPOINT, CHECKPOINT keep, CHECKPOINT full, CHECKPOINT level, CHECKPOINT memory have no effect here: commands of TRAINER_KIND=each and rows have no checkpoints
= 0
$ trainctl check t.env --run-dir run -s CHECKPOINT= -s TRAINER_KIND=each,header:on -s SYNC=asp -s WORKERS=ahead:9 -s MONITOR=report:3 -s RESTARTS=rollbacks:1 2>&1 >/dev/null
trainctl: --set: SYNC, WORKERS ahead, MONITOR report have no effect here: commands of TRAINER_KIND=each and rows have no iterations
trainctl: --set: RESTARTS rollbacks has no effect here: commands of TRAINER_KIND=each and rows have no checkpoints
trainctl: --set: TRAINER_KIND header has no effect here: a TRAINER gets rows of DATA only by TRAINER_KIND=rows and each
= 0
$ trainctl check t.env --run-dir run -s CHECKPOINT= -s FORMAT=csv,separator:tab -s LABEL=y -s MODEL=wdl,embed:8 -s OPTIMIZER=l2:0.1 -s MISSING=NA -s SERVERS=2,memory:1G -s LAUNCH_SERVER=nice 2>&1 >/dev/null
trainctl: --set: MODEL, MODEL embed, OPTIMIZER l2, MISSING have no effect here: a TRAINER has a model of its own, and reads its rows itself
trainctl: --set: FORMAT, FORMAT separator have no effect here: there is no DATA, only SAMPLES
trainctl: --set: LABEL has no effect here: a TRAINER reads its rows itself
trainctl: --set: SERVERS has no effect here: with TRAINER or SYNC=allreduce there are no parameter servers
trainctl: --set: SERVERS memory, LAUNCH_SERVER have no effect here: with TRAINER there are no parameter servers
= 0
$ trainctl check t.env --run-dir run -s DRAG=drag
trainctl: --set: DRAG slows workers and servers of the kit; with TRAINER there are none
= 78
E
}

@test "data: TEST has other columns" {
	transcript <<'E'
$ sed 1s/a/A/ d.csv >t.csv; trainctl run job.env -s TEST=t.csv
trainctl: TEST: DIR/t.csv:1: no column 'a' in the header; the nearest is 'A'
= 65
E
}

# ---- init ----

@test "init: files that are no table" {
	transcript <<'E'
$ : >e.csv; trainctl init e.csv
trainctl: e.csv: is empty
= 65
$ printf 'PAR1...' >d.parquet; trainctl init d.parquet
trainctl: d.parquet: is a Parquet file: write it as csv first (...)
= 65
$ printf 'a,b\n\000,1\n' >e.csv; trainctl init e.csv
trainctl: e.csv: is no text: byte 4 is 0. Paceline reads csv, tsv, criteo, libsvm, bag, idx and the files of CIFAR, plain or compressed
= 65
$ trainctl init "$(command -v sh)"
trainctl: ...: is no text: byte ... is 0. Paceline reads csv, tsv, criteo, libsvm, bag, idx and the files of CIFAR, plain or compressed
= 65
$ printf 'some words\nin lines\n' >e.txt; trainctl init e.txt
trainctl: e.txt: has one column only: no comma, tab, semicolon or | separates values (where blanks do: tr -s ' ' , < FILE > FILE.csv; for text see TOPICS in paceline-job(5))
= 65
$ printf '0\n2 3:1 4:1\n' >d.bag; trainctl init d.bag --label y
trainctl: --label: documents (a bag file) have no label
trainctl: --help shows the usage
= 64
$ trainctl init nothing.csv
trainctl: nothing.csv: can't be read: No such file or directory
= 66
E
}

@test "init: no names in the first line" {
	transcript <<'E'
$ tail -n +2 d.csv >e.csv; trainctl init e.csv
trainctl: e.csv:1: holds values ('...', ...), not the names of the 3 columns; this puts names before it: { seq -s ',' -f c%g 3; cat e.csv; } > named.csv
= 65
$ { seq -s ',' -f c%g 3; cat e.csv; } > named.csv; trainctl init named.csv --label c1 | head -n1
named.csv: csv, 100 rows
= 0
E
}

@test "init: which column is the label" {
	transcript <<'E'
$ trainctl init d.csv
trainctl: d.csv: which column is the label? Give it with --label NAME; likely: y
trainctl: --help shows the usage
= 64
$ trainctl init d.csv --label label
trainctl: d.csv: no column 'label' in line 1...
= 65
E
}

@test "init: a job file that is there already" {
	transcript <<'E'
$ touch d.env; trainctl init d.csv --label y
trainctl: d.env: is there already; --force overwrites it, -o FILE writes another
= 73
E
}

# ---- directories and states ----

@test "run dir: it can't be made, or used" {
	transcript <<'E'
$ trainctl run job.env --run-dir d.csv
trainctl: DIR/d.csv: is not a directory
= 73
$ trainctl run job.env --run-dir d.csv/run
trainctl: DIR/d.csv/run: can't be made: Not a directory
= 73
$ trainctl run job.env --run-dir a,b
trainctl: DIR/a,b: has a comma, which separates sockets in lists: choose another --run-dir
= 78
$ trainctl run job.env --run-dir "$(printf '%0100d' 0)"
trainctl: DIR/000...000: run directory too long for a socket (90 bytes at most): choose a shorter --run-dir
= 78
E
}

@test "state: a directory that may not be written" {
	[ "$(id -u)" != 0 ] || skip "root may write everywhere"
	transcript <<'E'
$ mkdir shut; chmod 500 shut; trainctl run job.env --run-dir shut/run
trainctl: DIR/shut/run: can't be made: Permission denied
= 73
E
}

@test "state: another job's, another key's, other data" {
	run_job >/dev/null 2>&1
	transcript <<'E'
$ trainctl run job.env --run-dir run --set DENSE=
trainctl: DIR/run/state: holds the state of this job with another DENSE; --fresh starts over
= 78
$ trainctl run job.env --run-dir run --set JOB=other --fresh
trainctl: DIR/run/state: holds the state of job tiny, not of other: choose another directory
= 78
$ echo 1,2,c1 >>d.csv; trainctl run job.env --run-dir run
trainctl: DIR/d.csv: was changed since the job began: DATA is not what DIR/run/state was made with; --fresh starts over
= 78
E
}

# ---- checkpoints, scores ----

@test "checkpoint: it is not there, or is none" {
	transcript <<'E'
$ ckpt list nothing
ckpt: nothing: there is no such directory; a job is named with -j NAME
= 66
$ mkdir some; ckpt verify some
ckpt: some: is no complete checkpoint: it has no MANIFEST
ckpt: some: is damaged in 1 place
= 1
$ ckpt export nothing out.safetensors
ckpt: nothing: there is no such directory; a job is named with -j NAME
= 66
$ predict -c nothing d.csv
predict: nothing: there is no such directory
= 66
E
}

@test "checkpoint: it is damaged" {
	run_job >/dev/null 2>&1
	cp -r run/state/checkpoints/000002 c
	flip c/part-0 99
	transcript <<'E'
$ ckpt verify c
ckpt: c/part-0: block 0 (...): is damaged: its checksum differs
ckpt: c: is damaged in 1 place
= 1
$ ckpt reshard c out
ckpt: reshard needs --servers M
ckpt: --help shows the usage
= 64
$ ckpt reshard c out --servers 2
ckpt: c/part-0: block 0 (...): is damaged: its checksum differs
= 65
E
}

@test "safetensors: it is none, or has no layout" {
	echo '1,2' >d.csv
	printf '\002\0\0\0\0\0\0\0{}' >x.safetensors
	transcript <<'E'
$ ckpt import d.csv out
ckpt: d.csv: is no safetensors file, or is cut off
= 65
$ ckpt import x.safetensors out
ckpt: x.safetensors: does not say which of its tensors are parameters: a layout is needed (--layout FILE)
= 65
E
}

@test "checkpoint: rows that do not fit it, an export that can't be made" {
	run_job >/dev/null 2>&1
	cp -r run/state/checkpoints/000002 c
	transcript <<'E'
$ ckpt export c nowhere/out.safetensors
ckpt: nowhere/out.safetensors: can't be made: No such file or directory
= 73
$ printf 'A,b\n1,c1\n' | predict -c c
predict: stdin:1: no column 'a' in the header; the nearest is 'A'
= 65
$ printf 'a,b\nx,c1\n' | predict -c c
predict: stdin:2:1: a: 'x' is not a number; MISSING= says which values mean a missing value
= 65
$ predict -c c nothing.csv
predict: nothing.csv: can't be read: No such file or directory
= 66
E
}

@test "auc: what is no score" {
	transcript <<'E'
$ echo 0.5 2 | auc
auc: stdin:1: the label is neither 0 nor 1: '2' (names of classes: --labels class; other numbers: --labels real)
= 65
$ echo 1.5 1 | auc
auc: stdin:1: the score is not a number from 0 to 1: '1.5' (names of classes: --labels class; other numbers: --labels real)
= 65
$ echo 0.5 | auc
auc: stdin:1: the label is missing
= 65
$ auc </dev/null
auc: stdin: no rows
= 65
E
}

# ---- solutions, filters ----

@test "solution: it is not there" {
	transcript <<'E'
$ trainctl solve antdt </dev/null
trainctl: antdt: is no solution (none even backup:N lb-bsp lb-bsp-gpu antdt-nd antdt-dd pace) and no executable
trainctl: --help shows the usage
= 64
$ trainctl run job.env -s SOLUTION=antdt
trainctl: --set: SOLUTION: 'antdt' is no solution (none even backup:N lb-bsp lb-bsp-gpu antdt-nd antdt-dd pace) and no executable
= 78
E
}

@test "solution: options" {
	transcript <<'E'
$ trainctl solve even -o lambda=x </dev/null
trainctl: lambda: 'x' is not a number
trainctl: --help shows the usage
= 64
$ trainctl solve even -o size=1 </dev/null
trainctl: size: is no option of a solution: batch, lambda, pending, sync, limit, cmax, least
trainctl: --help shows the usage
= 64
E
}

@test "records: lines that are none" {
	transcript <<'E'
$ echo 'Node id=1' | plrec where id=1
plrec: stdin:1: byte 1: the type must begin with a-z
= 65
$ printf 'node id=1' | plrec where id=1
plrec: stdin:1: the input ends without a newline
= 65
$ echo 'node id=1 id=2' | plrec where id=1
plrec: stdin:1: key 'id' appears twice
= 65
$ echo 'worker id=a' | bs-solve -B 10
bs-solve: stdin:1: worker: speed= is missing
= 65
$ printf 'worker id=a speed=1\nworker id=a speed=2\n' | bs-solve -B 10
bs-solve: stdin:2: worker id=a appears twice
= 65
$ bs-solve -B 10 </dev/null
bs-solve: stdin: no worker
= 65
$ printf 'job batch=8\nnode role=chief id=a cores=1\n' | res-plan --cores 8 --node-cores 4
res-plan: stdin:2: role=: 'chief' is neither worker nor server
= 65
$ printf 'link host=a\nserver host=b version=1\n' | xfer-sched
xfer-sched: stdin:2: host b has no link before this line
= 65
$ trainctl solve --log d.csv
trainctl: d.csv:1: byte 2: fields must be key=value with single spaces between
= 65
E
}

@test "rows by number: those that are not there" {
	transcript <<'E'
$ rowidx --cat d.csv 99 2 | wc -l
rowidx: d.csv: of the 2 rows from 99 on only 1 are there
1
= 1
$ rowidx --cat d.csv first 1
rowidx: BEGIN: 'first' is not a whole number
rowidx: --help shows the usage
= 64
$ rowidx nothing.csv
rowidx: nothing.csv: can't be read: No such file or directory
= 66
E
}

@test "filters: rows and commands that do not fit" {
	shardd -s s.sock -j j -n 100 -b 10 -m 1 3>&- &
	PIDS+=($!)
	ready s.sock
	transcript <<'E'
$ agent --id w0 --shards s.sock --rows d.csv
agent: --id, --shards, a COMMAND, and --lead, --rows or --each are needed
agent: --help shows the usage
= 64
$ agent --id w0 --shards s.sock --rows d.csv --output out -- cat
agent: --output: is for --each
agent: --help shows the usage
= 64
$ agent --id w0 --shards s.sock --each --header -- cat
agent: --header, --format, --separator, --index-dir: need --rows
agent: --help shows the usage
= 64
$ agent --id w0 --shards s.sock --rows nothing.csv -- cat
agent: nothing.csv: can't be read: No such file or directory
= 66
$ agent --id w0 --shards s.sock --rows d.csv,d.csv -- cat
agent: --rows: the files have 200 rows, but the queue has 100
= 78
$ agent --id w0 --shards s.sock --rows job.env --format libsvm --header -- cat
agent: job.env: is read as libsvm, which has no header line; is it --format csv?
= 78
$ sed 1s/y,a/a,y/ d.csv >e.csv; agent --id w0 --shards s.sock --rows d.csv,e.csv -- cat
agent: e.csv: its header line is not that of d.csv
= 65
$ agent --id w0 --shards s.sock --each -- sh -c 'exit 126'
agent: sh: shard 0 (epoch 0, rows 0 to 9): exit status 126: any other shard would fail in the same way
= 126
$ agent --id w0 --shards s.sock --each --output d.csv -- true
agent: d.csv: ...
= 73
$ agent --id w0 --shards other.sock --wait 0 --each -- true
agent: other.sock: ...
= 69
E
}

# ---- daemons and their sockets ----

@test "shardd: a queue that can't be begun" {
	transcript <<'E'
$ shardd -s s -j j
shardd: -n: is needed, the number of rows: j holds no journal to go on with
shardd: --help shows the usage
= 64
$ shardd -s s -j d.csv -n 10
shardd: d.csv: is not a directory
= 73
$ mkdir k; echo garbage >k/journal.000001; shardd -s s -j k -n 10
shardd: k/journal.000001:1: damaged: the line is not the one that was written
= 65
E
}

@test "sockets: a name that is taken, too long, not there" {
	schema_file a '' format=csv label=y
	model_file lr 1 0
	transcript <<'E'
$ touch plain; shardd -s plain -j j -n 10
shardd: plain: exists and is not a socket
= 73
$ shardd -s "$(printf '%0120d' 0)" -j j -n 10
shardd: 000...000: name of a socket too long
shardd: --help shows the usage
= 64
$ worker --id w0 --shards gone --servers none --data d.csv --schema schema --model-file lr --batch 8 --wait 0 2>&1 | tail -n1
worker: gone: can't be reached: No such file or directory
= 69
E
}

@test "sockets: paths of 107, 108 and 200 bytes are served and reached; a bare name of 108 can't be" {
	local length dir path
	for length in 107 108 200; do
		dir=$(printf "%0$((length - 2))d" 0)
		path=$dir/s
		mkdir "$dir"
		start "s$length" shardd -s "$path" -j "j$length" -n 10 -b 10
		wait_for "[ -S '$path' ]"
		run -0 agent --id w0 --shards "$path" --each -- echo done
		[ "$output" = done ]
	done
	run -64 shardd -s "$(printf '%0108d' 0)" -j other -n 10
	[[ $output == *"name of a socket too long"* ]]
}

@test "shardd: a second one" {
	start shardd shardd -s s -j j -n 100 -b 10
	ready s
	transcript <<'E'
$ shardd -s s -j other -n 100
shardd: s.lock: another instance runs: it holds this lock
= 75
$ shardd -s t -j j -n 100
shardd: j/lock: another instance runs: it holds this lock
= 75
E
}

# told REQUEST: what shardd answers.
told() { printf '%s\n' "$1" | socat -t 300 - UNIX-CONNECT:s | grep -v ^paceline; }
export -f told

@test "shardd: requests that can't be answered" {
	start shardd shardd -s s -j j -n 100 -b 10
	ready s
	transcript <<'E'
$ told dance
err code=unknown-request	there is no request 'dance'; help lists them
= 0
$ told 'GET / HTTP/1.1'
err code=bad-request	byte 1: the type must begin with a-z
= 0
$ told 'get worker=me'
err code=bad-request	get: generation= is missing
= 0
$ told 'hello worker=a/b'
err code=bad-request	worker=: 'a/b' is no id (1 to 64 of letters, digits, . _ -)
= 0
$ told 'hello worker=a generation=x'
err code=bad-request	generation=: 'x' is not a whole number
= 0
$ told 'hello worker=a worker=b'
err code=bad-request	key 'worker' appears twice
= 0
$ told 'hello  worker=a'
err code=bad-request	byte 7: a key must begin with a-z
= 0
$ told 'hello worker=%zz'
err code=bad-request	byte 14: '%' without two hexadecimal digits
= 0
$ told "hello worker=$(printf '%05000d' 0)"
err code=bad-request	line longer than 4096 bytes
= 0
$ told 'load file=nothing'
err code=file	nothing: can't be read: No such file or directory
= 0
E
}

# ---- a job that is not there ----

@test "a job that does not run" {
	run_job >/dev/null 2>&1
	transcript <<'E'
$ trainctl top
trainctl: which job? give -j NAME or --run-dir DIR
trainctl: --help shows the usage
= 64
$ trainctl status tiny
trainctl: takes no argument: 'tiny'; a job is named with -j NAME
trainctl: --help shows the usage
= 64
$ trainctl stop -j nothing
trainctl: no job nothing: there is no state of it in DIR/home/paceline/nothing; `trainctl status` shows those there are
= 66
$ trainctl wait -j nothing
trainctl: no job nothing: there is no state of it in DIR/home/paceline/nothing; `trainctl status` shows those there are
= 66
$ trainctl report -j nothing
trainctl: no job nothing: there is no state of it in DIR/home/paceline/nothing; `trainctl status` shows those there are
= 66
$ trainctl replay log
trainctl: unknown command 'replay'; `trainctl solve --log LOG` does that
trainctl: --help shows the usage
= 64
$ trainctl list
trainctl: unknown command 'list'; `trainctl status` does that
trainctl: --help shows the usage
= 64
$ HOME= XDG_STATE_HOME= trainctl status
trainctl: the environment has neither XDG_STATE_HOME nor HOME, so your jobs can't be found
= 78
$ trainctl stop --run-dir run
trainctl: job tiny does not run: it is done (...); `trainctl status --run-dir DIR/run` says more
= 69
$ trainctl logs w9 --run-dir run
trainctl: DIR/run/state/logs/w9.log: there is no log of w9; there are: ...w0...
= 66
$ trainctl kill-restart -j nothing
trainctl: kill-restart: which node?
trainctl: --help shows the usage
= 64
$ trainctl report --run-dir nowhere
trainctl: no job: there is no state of it in DIR/nowhere/state; `trainctl status` shows those there are
= 66
E
}

@test "a job that runs already" {
	mkdir drag
	echo drag speed=20 >drag/w0
	begin first --set DRAG=drag --set EPOCHS=100 --set SYNC=asp
	wait_for 'grep -qs "^row" first.out'
	transcript <<'E'
$ trainctl run job.env --run-dir run --set DRAG=drag --set EPOCHS=100 --set SYNC=asp
trainctl: job tiny runs already, since ...: pid ... runs it; `trainctl status --run-dir DIR/run` shows it, `trainctl stop --run-dir DIR/run` stops it
= 75
$ trainctl kill-restart w9 --run-dir run
trainctl: unknown-node: there is no node 'w9'; there are: ...w0...
= 66
$ echo 'action kind=adjust-bs id=w9 size=3' | trainctl apply --run-dir run >/dev/null
trainctl: bad-actions: line 1: adjust-bs w9: unknown-node (there is no such worker or server)
= 1
$ echo 'action kind=dance' | trainctl apply --run-dir run
trainctl: bad-actions: line 1: kind=: 'dance' is none of none|adjust-bs|backup-workers|kill-restart|adjust-lr
= 1
$ echo 'action kind=backup-workers count=1' | trainctl apply --run-dir run >/dev/null
trainctl: bad-actions: line 1: backup-workers: no-barrier (no backup workers: only iterations of SYNC=bsp and SYNC=allreduce end for all at once)
= 1
$ echo 'action kind=adjust-bs id=w0' | trainctl apply --run-dir run
trainctl: bad-actions: line 1: action: size= is missing
= 1
$ trainctl kill-restart shardd --run-dir run
trainctl: role: shardd is not restarted now: only workers and servers are
= 1
E
}

# ---- what nodes may use ----

@test "cores and memory of nodes, further hosts" {
	unset SLURM_JOB_NODELIST
	transcript <<'E'
$ trainctl check job.env --set WORKERS=memory:4K
trainctl: --set: WORKERS memory: '4K' is less than 8M, too little to start anything (suffixes are K, M, G, T)
= 78
$ trainctl check job.env --set WORKERS=cores:two
trainctl: --set: WORKERS cores: 'two' is not a number
= 78
$ trainctl check job.env --set LAUNCHER=more:2
trainctl: LAUNCHER more: asks Slurm for hosts, and this is no allocation of Slurm
= 78
$ trainctl check job.env --set LAUNCHER=preemptible:spot
trainctl: --set: LAUNCHER preemptible is for further hosts, but LAUNCHER more is 0
= 78
$ trainctl check job.env --set LAUNCHER=more:1 --set SYNC=allreduce
trainctl: --set: LAUNCHER more requests further hosts for workers, but with SYNC=allreduce workers can't run there
= 78
E
}
