#!/usr/bin/env bats
# rooms: ckpt param
load helper

# Checkpoints are made by real servers: two parts, ten dense parameters, three rows touched.
setup_more() {
	cat >layout <<-'END'
		layout version=1 seed=3
		tensor name=w rows=3 cols=2 init=normal scale=1
		tensor name=b rows=4 cols=1 init=uniform scale=1
		table name=emb width=2 rows=0 zero-columns=0 scale=0.5
	END
	echo 'any schema' >schema
}

servers() {
	start ps1 ps-server -s ps1.sock --id ps1 --part 1/2 --layout layout --sync bsp
	ready ps1.sock
	start ps0 ps-server -s ps0.sock --id ps0 --part 0/2 --layout layout --sync bsp \
		--servers ps1.sock --include schema
	ready ps0.sock
}

# touch SERVER KEYS: makes rows; KEYS are four bytes each, as for printf.
touch_rows() {
	{
		printf 'pull worker=w0 generation=1 incarnation=1 iteration=0 dense=0 rows=%s bytes=%s\n' \
			$((${#2} / 16)) $((${#2} / 4))
		printf "$2"
	} | socat -t 300 - "UNIX-CONNECT:$1" >/dev/null
}

# cut PATH: a checkpoint there.
cut_at() {
	[[ "$(ask ps0.sock "cut path=$PWD/$1")" == "ok path="* ]]
}

checkpoints() {
	servers
	# Keys 1 and 2 belong to parts 1 and 0 of two: 2654435761 is above 2^31, twice that below.
	touch_rows ps1.sock '\001\000\000\000'
	touch_rows ps0.sock '\002\000\000\000\004\000\000\000'
	mkdir d
	for i in "$@"; do cut_at "d/$i"; done
	for pid in "${PIDS[@]}"; do kill "$pid"; done
}

@test "usage" {
	run -0 ckpt --help
	[[ "$output" == usage:* ]]
	run -0 ckpt --version
	run -64 ckpt
	run -64 ckpt look .
	run -64 ckpt list
	run -64 ckpt list a b
	run -64 ckpt prune .
	run -64 ckpt prune . --keep 0
	run -64 ckpt show . --keep 1
	run -64 ckpt list . -j job
	run -64 ckpt latest -j ../up
}

@test "list, latest, show, verify of what servers wrote" {
	checkpoints 000001 000002
	run -0 ckpt list d
	[ "${#lines[@]}" = 2 ]
	[[ "${lines[0]}" == "checkpoint name=000001 state=complete iteration=0 incarnation=1 at="*" parts=2 bytes="* ]]
	run -0 ckpt latest d
	[ "$output" = d/000002 ]
	run -0 ckpt show d/000002
	[[ "${lines[0]}" == "checkpoint job= iteration=0 incarnation=1 at="*" parts=2 dense=10 dense-slots=1 rows=3 width=2 row-slots=1" ]]
	echo "$output" | grep '^file name=schema bytes=11 sum=................$'
	echo "$output" | grep '^note key=optimizer value=adagrad$'
	echo "$output" | grep '^table name=emb '
	run -0 ckpt verify d/000001/
	[ "$output" = "" ]
}

@test "latest passes over torn checkpoints" {
	checkpoints 000001 000002 000003 000004
	rm d/000004/MANIFEST
	truncate -s -1 d/000003/part-1
	flip d/000002/MANIFEST 20
	run -0 ckpt latest d
	[ "$output" = d/000001 ]
	run -0 ckpt list d
	[ "$(echo "$output" | grep -c state=incomplete)" = 3 ]
	rm -r d/000001
	run -1 ckpt latest d
	[[ "$output" == *"no complete checkpoint"* ]]
	run -66 ckpt latest nowhere
}

@test "verify finds a flipped byte anywhere and names file and block" {
	checkpoints c
	at=$(grep -a -o 'section=rows at=[0-9]*' d/c/part-0 | cut -d= -f3)
	flip d/c/part-0 "$at"
	run -1 ckpt verify d/c
	[[ "${lines[0]}" == "ckpt: d/c/part-0: block "*" (rows): "* ]]
	flip d/c/part-0 "$at"
	for file in MANIFEST part-0 part-1 layout schema; do
		size=$(stat -c %s "d/c/$file")
		for at in 0 $((size / 3)) $((size - 1)); do
			flip "d/c/$file" "$at"
			run -1 ckpt verify d/c
			[[ "${lines[0]}" == "ckpt: d/c/$file: "* ]]
			flip "d/c/$file" "$at"
		done
	done
	run -0 ckpt verify d/c
}

@test "verify: missing, cut and foreign files" {
	checkpoints c e
	mv d/c/part-1 kept
	run -1 ckpt verify d/c
	[[ "${lines[0]}" == "ckpt: d/c/part-1: "* ]]
	run -65 ckpt show d/c
	head -c 100 kept >d/c/part-1
	run -1 ckpt verify d/c
	cp d/c/part-0 d/c/part-1
	run -1 ckpt verify d/c
	cp kept d/c/part-1
	run -0 ckpt verify d/c
	rm d/c/MANIFEST
	run -1 ckpt verify d/c
	[[ "$output" == *"no MANIFEST"* ]]
	run -66 ckpt show d/c
	run -66 ckpt export d/c x
	run -66 ckpt verify d/none
}

@test "verify: one file, whatever its neighbours are like" {
	checkpoints c
	cp -r d/c c
	rm c/part-1
	run -0 ckpt verify c/part-0
	[ -z "$output" ]
	(cd c && ckpt verify part-0)
	flip c/part-0 100
	run -1 ckpt verify c/part-0
	[[ $output == *"c/part-0"* ]]
	echo more >>c/layout
	run -1 ckpt verify c/layout
	cp c/part-0 c/other
	run -1 ckpt verify c/other
	[[ $output == *"names no file 'other'"* ]]
	rm c/MANIFEST
	run -1 ckpt verify c/part-0
}

@test "prune keeps the newest, what is protected, and what is in the making" {
	checkpoints 000001 000002 000003 000004 000006
	mkdir d/000005 d/000007 d/mine
	run -0 ckpt prune --keep 2 d --protect "$PWD/d/000002"
	[ "$output" = "$(printf 'removed name=%s\n' 000005 000001 000003)" ]
	[ "$(cd d && echo *)" = "000002 000004 000006 000007 mine" ]
	run -0 ckpt prune d --keep 1
	[ "$(cd d && echo *)" = "000006 000007 mine" ]
	run -66 ckpt prune none --keep 1
}

# tensors FILE: which there are, and their values.
tensors() {
	local header
	header=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
	tail -c +9 "$1" | head -c "$header" | grep -o '"[^"]*":{"dtype[^}]*}'
	tail -c +$((header + 9)) "$1"
}

@test "a restored checkpoint is the same checkpoint, whatever the number of servers" {
	checkpoints c
	ckpt export d/c before.safetensors
	rm -f ./*.sock
	start solo ps-server -s solo.sock --id ps0 --part 0/1 --layout layout --sync bsp --restore d/c
	ready solo.sock
	[[ "$(ask solo.sock "cut path=$PWD/d/solo")" == "ok path="* ]]
	ckpt export d/solo after.safetensors
	# Metadata apart: a server writes its layout in its own words.
	cmp <(tensors before.safetensors) <(tensors after.safetensors)
	[[ "$(ckpt show d/solo)" == *" parts=1 "*" rows=3 "* ]]
}

@test "export is safetensors" {
	checkpoints c
	ckpt export d/c x.safetensors
	header=$(od -An -tu8 -N 8 x.safetensors | tr -d ' ')
	[ $((header % 8)) = 0 ]
	text=$(tail -c +9 x.safetensors | head -c "$header")
	[[ "$text" == *'"w":{"dtype":"F32","shape":[3,2],"data_offsets":[24,48]}'* ]]
	[[ "$text" == *'"b":{"dtype":"F32","shape":[4],"data_offsets":[48,64]}'* ]]
	[[ "$text" == *'"emb.keys":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}'* ]]
	[[ "$text" == *'"emb.values":{"dtype":"F32","shape":[3,2],"data_offsets":[64,88]}'* ]]
	[ "$(stat -c %s x.safetensors)" = $((8 + header + 88)) ]
	[ "$(od -An -td8 -j $((8 + header)) -N 24 -w24 x.safetensors | xargs)" = "1 2 4" ]
	ckpt export d/c - | cmp - x.safetensors
	if python3 -c 'import json' 2>/dev/null; then
		python3 -c '
import json, struct
data = open("x.safetensors", "rb").read()
n, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n])
spans = sorted(t["data_offsets"] for k, t in header.items() if k != "__metadata__")
at = 0
for begin, end in spans:
    assert begin == at
    at = end
assert at == len(data) - 8 - n
'
	fi
}

@test "export: a table of all rows, untouched ones with their initial values" {
	printf 'layout version=1 seed=1\ntable name=audit width=1 rows=5 zero-columns=1 scale=0 update=add export=dense\n' >layout
	servers
	touch_rows ps0.sock '\002\000\000\000'
	mkdir d
	cut_at d/c
	ckpt export d/c x.safetensors
	[[ "$(tail -c +9 x.safetensors)" == *'"audit":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}'* ]]
	[ "$(tail -c 20 x.safetensors | od -An -tf4 -w20 | xargs)" = "0 0 0 0 0" ]
}

@test "reshard: the same parameters in other parts, which servers restore" {
	checkpoints c
	ckpt export d/c before.safetensors
	ckpt reshard d/c d/five --servers 5
	[[ "$(ckpt show d/five)" == "checkpoint "*" parts=5 dense=10 dense-slots=1 rows=3 width=2 row-slots=1"* ]]
	ckpt verify d/five
	ckpt reshard d/five d/two --servers 2
	ckpt reshard d/two d/three --servers 3
	ckpt verify d/three
	for i in five two three; do ckpt export d/$i - | cmp - before.safetensors; done
	cmp d/c/schema d/three/schema
	rm -f ./*.sock
	start solo ps-server -s solo.sock --id ps0 --part 0/1 --layout layout --sync bsp --restore d/three
	ready solo.sock
	[[ "$(ask solo.sock "cut path=$PWD/d/solo")" == "ok path="* ]]
	ckpt export d/solo solo.safetensors
	cmp <(tensors solo.safetensors) <(tensors before.safetensors)
	run -73 ckpt reshard d/c d/five --servers 2
	run -64 ckpt reshard d/c d/more
	run -64 ckpt reshard d/c d/more --servers 0
	run -64 ckpt list d --servers 2
	[ ! -e d/more ]
}

@test "reshard: as many parts as there may be, with the usual limit of open files" {
	checkpoints c
	ckpt export d/c before.safetensors
	ulimit -Sn 1024
	[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 2560 ] || skip "a hard limit of open files"
	ckpt reshard d/c d/most --servers 1024
	ckpt verify d/most
	ckpt reshard d/most d/one --servers 1
	ckpt export d/one - | cmp - before.safetensors
	# That no more may be open is no damage.
	ulimit -n 500
	run -71 ckpt verify d/most
	[[ $output == "ckpt: d/most/part-"*"Too many open files" ]]
	run -64 ckpt reshard d/c d/more --servers 1025
}

@test "base=: of the checkpoint beside it, whatever others are called" {
	servers
	touch_rows ps1.sock '\001\000\000\000'
	mkdir a b
	for i in 1 2 3; do cut_at a/$i; done
	cut_at b/4
	touch_rows ps0.sock '\002\000\000\000\004\000\000\000'
	cut_at a/4
	[[ "$(ask ps0.sock "cut path=$PWD/b/5 base=4")" == "ok path="*" base=4 "* ]]
	[[ "$(ask ps0.sock "cut path=$PWD/a/5 base=4")" == "ok path="*" base=4 "* ]]
	cut_at whole
	ckpt export whole whole.safetensors
	for i in a/5 b/5; do
		ckpt verify $i
		ckpt export $i $i.safetensors
		cmp <(tensors $i.safetensors) <(tensors whole.safetensors)
	done
	[[ "$(ckpt show b/5)" == *" rows=3 "* ]]
	ln -s b/5 best
	for i in b/5/ b/../b/5 best best/ b/5/.; do
		ckpt verify "$i"
		ckpt export "$i" - | cmp - b/5.safetensors
	done
	(cd b/5 && ckpt verify .)
	[[ "$(head -n 1 b/5/part-0)" == "part version=2 "*" rows=2 all-rows=2" ]]
	[[ "$(head -n 1 a/5/part-0)" == "part version=2 "*" rows=0 all-rows=2" ]]
	not grep -q . <(ask ps0.sock "cut path=$PWD/b/6 base=../a/4" | grep ^ok)
}

@test "--level: the same values in fewer bytes, or more" {
	checkpoints c
	ckpt export d/c before.safetensors
	for level in 0 1 9; do
		ckpt reshard d/c d/$level --servers 2 --level $level
		ckpt verify d/$level
		ckpt export d/$level - | cmp - before.safetensors
	done
	run -64 ckpt reshard d/c d/more --servers 2 --level 10
	run -64 ckpt list d --level 1
	printf 'layout version=1 seed=1\ntensor name=w rows=100000 cols=1 init=normal scale=1\n' >layout
	rm -f ./*.sock
	for level in 0 1 6; do
		start l$level ps-server -s l$level.sock --id ps0 --layout layout --sync bsp \
			--checkpoint-level $level
		ready l$level.sock
		[[ "$(ask l$level.sock "cut path=$PWD/d/l$level")" == "ok path="* ]]
	done
	[ "$(stat -c %s d/l0/part-0)" -gt 400000 ]
	[ "$(stat -c %s d/l1/part-0)" -lt 400000 ]
	cmp <(ckpt export d/l0 -) <(ckpt export d/l6 -)
}

@test "--memory: the last cut is restored from there, and from the disk if it is damaged" {
	printf 'layout version=1 seed=3\ntensor name=w rows=5000 cols=1 init=normal scale=1\n' >layout
	server() {
		start "$1" ps-server -s "$1.sock" --id ps0 --layout layout --sync bsp --memory "$T/memory" "${@:2}"
		ready "$1.sock"
	}
	mkdir d
	server one
	[[ "$(ask one.sock "cut path=$PWD/d/1")" == "ok path="* ]]
	[[ "$(ask one.sock "cut path=$PWD/d/2")" == "ok path="* ]]
	ckpt export d/2 before.safetensors
	sum=$(ckpt show d/2 | grep 'name=part-0' | field sum)
	# One alone, and it says of which file it is.
	[ "$(echo memory/*)" = "memory/part-0.$sum" ]
	kill -9 "$PID"
	server two --restore d/2
	grep -q 'd/2: restored from memory' two.err
	[[ "$(ask two.sock "cut path=$PWD/d/3")" == "ok path="* ]]
	ckpt export d/3 - | cmp - before.safetensors
	kill -9 "$PID"
	# Of other bytes there is none, whatever they mean.
	ckpt reshard d/1 d/other --servers 1 --level 0
	server three --restore d/other
	not grep -q 'restored from memory' three.err
	kill -9 "$PID"
	flip memory/part-0.* 9000
	server four --restore d/3
	grep -q 'memory/part-0.*; the disk is read' four.err
	[[ "$(ask four.sock "cut path=$PWD/d/4")" == "ok path="* ]]
	ckpt export d/4 - | cmp - before.safetensors
	[ -e memory ]
	kill "$PID"
	wait "$PID"
	[ ! -e memory ]
}

@test "--memory: in a directory of somebody else nothing is written, and nothing removed" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	printf 'layout version=1 seed=3\ntensor name=w rows=50 cols=1 init=normal scale=1\n' >layout
	mkdir d memory
	echo theirs >memory/part-0.theirs
	chown 12345 memory
	start server ps-server -s s.sock --id ps0 --layout layout --sync bsp --memory "$T/memory"
	ready s.sock
	[[ "$(ask s.sock "cut path=$PWD/d/1")" == "ok path="* ]]
	[ "$(echo memory/*)" = memory/part-0.theirs ]
	kill "$PID"
	ended "$PID"
	[ "$(cat memory/part-0.theirs)" = theirs ]
}

@test "import: what export wrote, whole again" {
	checkpoints c
	ckpt export d/c x.safetensors
	ckpt import x.safetensors d/back --servers 3
	[[ "$(ckpt show d/back)" == "checkpoint "*" parts=3 dense=10 dense-slots=0 rows=3 width=2 row-slots=0"* ]]
	ckpt verify d/back
	ckpt export d/back - | cmp - x.safetensors
	run -73 ckpt import x.safetensors d/back
	run -64 ckpt import x.safetensors
	run -64 ckpt import x.safetensors d/more -j job
	run -66 ckpt import none.safetensors d/more
	rm -f ./*.sock
	start solo ps-server -s solo.sock --id ps0 --part 0/1 --layout layout --sync bsp --restore d/back
	ready solo.sock
	[[ "$(ask solo.sock "cut path=$PWD/d/solo")" == "ok path="* ]]
	ckpt export d/solo solo.safetensors
	cmp <(tensors solo.safetensors) <(tensors x.safetensors)
	sed 's/name=b rows=4/name=b rows=5/' layout >other
	run -65 ckpt import x.safetensors d/more --layout other
	[[ $output == "ckpt: x.safetensors: tensor 'b': its shape is not the layout's [5, 1]"* ]]
	[ ! -e d/more ]
	sed '/^tensor name=b/d' layout >other
	run -0 ckpt import x.safetensors d/more --layout other
	[[ $output == "ckpt: x.safetensors: tensor 'b' is left out: the layout does not name it" ]]
}

@test "prune keeps the newest that is whole, and says which are not" {
	checkpoints 000001 000002 000003 000004
	flip d/000004/part-1 200
	flip d/000003/schema 2
	run -0 ckpt prune d --keep 1
	[ "$(echo "$output" | grep ^removed)" = "$(printf 'removed name=%s\n' 000001 000003)" ]
	[[ $output == *"ckpt: d/000004/part-1: "* ]]
	[[ $output == *"ckpt: d/000003/schema: "* ]]
	flip d/000002/part-0 200
	run -65 ckpt prune d --keep 1
	[[ $output == *"ckpt: d: none of its checkpoints is whole, so no complete one was removed" ]]
	[ "$(cd d && echo *)" = "000002 000004" ]
}

@test "export to a bad path, and to a full disk" {
	checkpoints c
	run -73 ckpt export d/c none/x.safetensors
	run -73 ckpt export d/c d
	status=0
	(ulimit -f 0; ckpt export d/c x.safetensors) 2>err || status=$?
	[ "$status" = 74 ]
	[ -z "$(ls | grep safetensors)" ]
	if [ -w /dev/full ]; then
		status=0
		ckpt export d/c - >/dev/full 2>err || status=$?
		[ "$status" = 74 ]
	fi
	at=$(grep -a -o 'section=rows at=[0-9]*' d/c/part-0 | cut -d= -f3)
	flip d/c/part-0 "$at"
	run -65 ckpt export d/c x.safetensors
	[[ "$output" == *"d/c/part-0: block "* ]]
	[ -z "$(ls | grep safetensors)" ]
}

@test "-j: the checkpoints of a job, and its newest one" {
	checkpoints 000001 000002
	mkdir -p home/paceline/j
	mv d home/paceline/j/checkpoints
	d=$T/home/paceline/j/checkpoints
	ckpt list -j j | cmp - <(ckpt list "$d")
	[ "$(ckpt latest -j j)" = "$d/000002" ]
	ckpt show -j j | cmp - <(ckpt show "$d/000002")
	ckpt verify -j j
	ckpt export -j j x.safetensors
	ckpt export "$d/000002" - | cmp - x.safetensors
	[ "$(ckpt prune --keep 1 -j j)" = "removed name=000001" ]
	mkdir run
	mv home/paceline/j run/state
	[ "$(ckpt latest --run-dir run)" = "$T/run/state/checkpoints/000002" ]
	run -66 ckpt latest -j j
	[[ $output == "ckpt: no job j: "*"trainctl status"* ]]
	run -64 ckpt latest "$d" -j j
	run -64 ckpt export -j j
	run -64 ckpt show
}

@test "a checkpoint that may not be read is no incomplete one" {
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip "needs root"
	checkpoints 000001 000002
	chmod a+rx "$T" && chmod -R a+rX d && chmod 600 d/000002/MANIFEST
	local ckpt nobody=(setpriv --reuid 65534 --clear-groups)
	ckpt=$(command -v ckpt)
	cp "$ckpt" . && chmod 755 ckpt
	run -77 "${nobody[@]}" ./ckpt latest d
	[[ "$output" == "ckpt: d/000002/MANIFEST: "*"Permission denied" ]]
	run -77 "${nobody[@]}" ./ckpt list d
	run -77 "${nobody[@]}" ./ckpt prune d --keep 1
	run -0 ckpt latest d
}
