# rooms: model meter
load helper

# Jobs whose workers compute on cards. There is none here: a CPU stands in for it (tests/cudacpu), with programs
# that lie beside such a plug-in. It is told by files in $PACELINE_CUDACPU: `cards` (how many), `memory` (bytes),
# `driver` (0: there is none), and lost-N (card N answers no more), `nccl` (1: it sums; 2: it does not start);
# it writes `streams`, a line for each that a program makes.

setup_file() {
	local bin=${PACELINE_BIN:-$PACELINE_ROOT/build/bin}
	[ -e "$bin/../cudacpu/model-cuda.so" ] || return 0
	mkdir -p "$BATS_FILE_TMPDIR/kit/cuda"
	cp -r "$bin" "$BATS_FILE_TMPDIR/kit/bin"
	cp "$bin/../cudacpu/model-cuda.so" "$BATS_FILE_TMPDIR/kit/cuda/"
}

setup_more() {
	[ -e "$BATS_FILE_TMPDIR/kit/cuda" ] || skip "this build has no stand-in for a card"
	PATH=$BATS_FILE_TMPDIR/kit/bin:$PATH
	export PACELINE_CUDACPU=$T/cards
	mkdir "$PACELINE_CUDACPU"
}

card() { echo "$2" >"$PACELINE_CUDACPU/$1"; }
in_log() { grep -q -- "$2" "run/state/logs/$1.log"; }
# parameters RUN: those of its last checkpoint, to the bit.
parameters() {
	ckpt export "$(ckpt latest "$1/state/checkpoints")" "$1.safetensors" >/dev/null
	tail -c "+$(($(od -An -t u8 -N 8 "$1.safetensors") + 9))" "$1.safetensors" | cksum
}

@test "census on a card: the AUC of the CPU" {
	need_data adult-train.csv.gz
	printf '%s\n' JOB=j "DATA=$DATA/adult-train.csv.gz" "TEST=$DATA/adult-test.csv" FORMAT=csv LABEL=income \
		"POSITIVE='>50K'" DENSE=age,education_num,capital_gain,capital_loss,hr_per_week \
		SPARSE=type_employer,education,marital,occupation,relationship,race,sex,country \
		BATCH=256 WORKERS=1 MODEL=hash-bits:16 SOLUTION=profile:off >census.env
	for device in cpu cuda; do
		run --separate-stderr -0 trainctl run census.env --run-dir "$device" --set "WORKERS=device:$device" 3>&-
		auc[${#auc[@]}]=$(field auc <"$device/state/summary")
	done
	echo "${auc[@]}"
	awk -v a="${auc[0]}" -v b="${auc[1]}" 'BEGIN { exit !(a > 0.89 && a - b < 1e-5 && b - a < 1e-5) }'
	grep -q 'cuda:0 computes: CPU stand-in' cuda/state/logs/w0.log
	not grep computes: cpu/state/logs/w0.log
}

@test "a job on a card is the same to the bit each time" {
	local model
	for model in lr wdl,embed:3,hidden:6-4; do
		rm -rf run again
		job EPOCHS=2 "MODEL=$model" WORKERS=1,device:cuda SERVERS=1 SHUFFLE=samples SOLUTION=profile:off
		run -0 run_job
		run -0 trainctl run job.env --run-dir "$T/again"
		[ "$(parameters run)" = "$(parameters again)" ]
		run -0 trainctl run job.env --run-dir "$T/again" --fresh --set WORKERS=device:cpu
		[ "$(parameters run)" != "$(parameters again)" ]
	done
}

@test "the rows of the next batch come while one is computed, in a stream of their own" {
	job EPOCHS=2 MODEL=wdl,embed:3,hidden:6-4 WORKERS=1,device:cuda SERVERS=1 SOLUTION=profile:off
	run -0 run_job
	[ "$(wc -l <cards/streams)" -eq 2 ]
}

@test "stopped in the middle of an epoch on a card: in the end the bits are those without a break" {
	job EPOCHS=2 MODEL=wdl,embed:3,hidden:6-4 WORKERS=1,device:cuda SERVERS=1 SHUFFLE=samples SOLUTION=profile:off
	run -0 trainctl run job.env --run-dir "$T/whole"
	slow 400
	begin first
	wait_for 'came_to 200'
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
	[ "$(parameters run)" != "$(parameters whole)" ]
	rm drag/*
	run -0 run_job
	[ "$(parameters run)" = "$(parameters whole)" ]
}

@test "two workers share a card; of two each takes one" {
	job WORKERS=device:cuda EPOCHS=2
	run -0 run_job
	in_log w0 'cuda:0 computes'
	in_log w1 'cuda:0 computes'
	card cards 2
	run -0 run_job --fresh
	in_log w0 'cuda:0 computes'
	in_log w1 'cuda:1 computes'
	run -0 run_job --fresh --set WORKERS=device:cuda:1
	in_log w0 'cuda:1 computes'
	in_log w1 'cuda:1 computes'
	run -0 run_job --fresh --set WORKERS=device:cuda+tf32
	in_log w0 'cuda:0+tf32 computes: .* MiB, tf32$'
	in_log w1 'cuda:1+tf32 computes: .* MiB, tf32$'
}

@test "one worker with several cards: NCCL or the host adds their sums, and one that is lost is left out" {
	card cards 3
	job EPOCHS=2 MODEL=wdl,embed:3,hidden:6-4 WORKERS=1,device:cuda:0+2 SERVERS=1 SHUFFLE=samples SOLUTION=profile:off
	run -0 run_job
	in_log w0 'cuda:0+2 computes: 2 x CPU stand-in, 16384 MiB$'
	card nccl 1
	run -0 trainctl run job.env --run-dir "$T/again"
	grep -q 'cuda:0+2 computes: 2 x CPU stand-in, 16384 MiB, NCCL$' again/state/logs/w0.log
	[ "$(parameters run)" = "$(parameters again)" ]
	card nccl 2
	job WORKERS=1,device:cuda:0+2+tf32 EPOCHS=300
	slow 400
	begin first --fresh
	wait_for 'came_to 100'
	in_log w0 'cuda:0+2+tf32 computes: 2 x CPU stand-in, 16384 MiB, tf32$'
	card lost-2 ''
	wait_for 'in_log w0 "computes: CPU stand-in, 16384 MiB, tf32, without cuda:2+tf32\$"'
	grep -q ' id=w0 .* status=75' run/state/job.log
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
	run -69 trainctl check job.env --run-dir "$T/run2" --set WORKERS=device:cuda:8+9
	[[ $output == *"cuda:9: this host has only 3 cards"* ]]
}

@test "what was measured of a card is kept, and reported; another model measures anew" {
	job WORKERS=1,device:cuda EPOCHS=2
	run -0 run_job
	[[ $(<run/state/device-w0) =~ ^device\ type=CPU-stand-in-.*\ saturation=[1-9][0-9]*\ max=[1-9][0-9]*\ left=[1-9][0-9]*\ model=[0-9]+$ ]]
	grep -q '^device role=worker id=w0 type=CPU-stand-in-16384-MiB ' run/state/bpt.log
	# The next process says what the file says; and that of another model is not for it.
	job WORKERS=1,device:cuda EPOCHS=200
	slow 400
	begin first --fresh
	wait_for 'came_to 100'
	sed -i 's/ max=[0-9]*/ max=4711/' run/state/device-w0
	kill -9 "$(pid_of w0)"
	wait_for 'grep -q " id=w0 .* max=4711 " run/state/bpt.log'
	sed -i 's/ max=4711\(.*\) model=.*/ max=4712\1 model=1/' run/state/device-w0
	kill -9 "$(pid_of w0)"
	wait_for '! grep -q " max=4712 " run/state/device-w0'
	# Others had half of it when this was measured.
	left=$(field left <run/state/device-w0)
	sed -i "s/ max=.* model/ max=4713 left=$((left / 2)) model/" run/state/device-w0
	kill -9 "$(pid_of w0)"
	wait_for '! grep -q " max=4713 " run/state/device-w0'
	not grep -q 'max=471[23]' run/state/bpt.log
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
}

@test "a batch that does not fit a card is computed in parts; the bound is kept and reported" {
	card memory 14000
	job WORKERS=1,device:cuda BATCH=512 EPOCHS=2 TEST=$PWD/d.csv
	data 3000
	run -0 run_job
	[[ $output == *" auc=0.9"* ]]
	[ "$(field max <run/state/device-w0)" -lt 512 ]
	# As it trains: the memory of another process that shares the card.
	card memory 10000000
	job WORKERS=1,device:cuda BATCH=512 EPOCHS=200
	slow 2000
	begin first --fresh
	wait_for 'came_to 1000'
	[ "$(field max <run/state/device-w0)" -gt 512 ]
	card memory 14000
	kill -9 "$(pid_of w0)"
	wait_for 'in_log w0 "the memory of CPU stand-in.* is full: more than [0-9]* samples are computed in parts"'
	wait_for '[ "$(field max <run/state/device-w0)" -lt 512 ]'
	[ "$(grep -c 'is full' run/state/logs/w0.log)" -eq 1 ]
	# The other process is gone.
	card memory 10000000
	kill -9 "$(pid_of w0)"
	wait_for '[ "$(field max <run/state/device-w0)" -gt 512 ]'
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
}

@test "a card that is lost: the worker ends with 75, and the next one takes another card, or the CPU" {
	card cards 2
	job WORKERS=1,device:cuda EPOCHS=300
	slow 400
	begin first
	wait_for 'came_to 100'
	card lost-0 ''
	wait_for 'in_log w0 "cuda:1 computes"'
	in_log w0 'another card is tried'
	grep -q ' id=w0 .* status=75' run/state/job.log
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
	rm "$PACELINE_CUDACPU"/*
	job WORKERS=1,device:auto EPOCHS=300
	begin second --fresh
	wait_for 'came_to 100'
	in_log w0 'cuda:0 computes'
	card lost-0 ''
	wait_for 'in_log w0 "the CPU computes: cuda"'
	trainctl stop --run-dir "$T/run" >/dev/null
	ended "$SUPERVISOR"
}

@test "no driver, no card, not this card, not this model, no plug-in: a line each, before anything runs" {
	refused() { # STATUS TEXT [KEY=VALUE]
		for command in check run; do
			run "-$1" trainctl "$command" job.env --run-dir "$T/run" --set "${3-WORKERS=device:cuda}"
			[[ $output == *"$2"* ]]
			[ -z "$(ls run/state/nodes 2>/dev/null)" ]
		done
	}
	job
	card driver 0
	refused 69 'cuda: no NVIDIA driver on this host'
	card driver 9000
	card cards 0
	refused 69 'cuda: no card on this host'
	card cards 2
	refused 69 'cuda:2: this host has only 2 cards' WORKERS=device:cuda:2
	job MODEL=audit
	refused 78 'audit is not computed on a card: '
	job
	for wrong in gpu cuda: cuda:x cuda:0+0 cuda:1+0 cuda:0+ cuda+1; do refused 78 "is none of cpu|cuda[:N[+N]...][+tf32]|auto" "WORKERS=device:$wrong"; done
	# auto takes what there is
	card driver 0
	run -0 run_job --set WORKERS=device:auto
	in_log w0 'the CPU computes: cuda: no NVIDIA driver'
	# predict says the same
	run -69 predict -c "$(ckpt latest run/state/checkpoints)" --device cuda d.csv
	[[ $output == *"cuda: no NVIDIA driver on this host"* ]]
	run -64 predict -c "$(ckpt latest run/state/checkpoints)" --device gpu d.csv
	[[ $output == *"--device: 'gpu' is none of cpu|cuda[:N[+N]...][+tf32]|auto"* ]]
	rm "$PACELINE_CUDACPU"/*
	predict -c "$(ckpt latest run/state/checkpoints)" --device cuda d.csv >card.scores
	predict -c "$(ckpt latest run/state/checkpoints)" d.csv >cpu.scores
	paste card.scores cpu.scores | awk '{ d = $1 - $3; if (d > 1e-6 || d < -1e-6) exit 1 }'
	mkdir other
	cp -r "$BATS_FILE_TMPDIR/kit/bin" other/bin
	run -69 other/bin/trainctl check job.env --run-dir "$T/run2" --set WORKERS=device:cuda
	[[ $output == *"model-cuda.so: not there: Paceline was built without CUDA"* ]]
}
