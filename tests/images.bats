#!/usr/bin/env bats
load helper
# rooms: data model

# Rows that are images: idx files as those of MNIST, the binary files of CIFAR-10 and CIFAR-100; and the
# models that learn them, mlp and conv.

# bars FORMAT FILE COUNT SEED [SIZE]: bars of four directions, at any place, in noise; the label is the
# direction. idx: also the file of labels.
bars() {
	python3 - "$@" <<-'END'
		import random, struct, sys
		kind, name, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
		size = int(sys.argv[5]) if len(sys.argv) > 5 else 32
		random.seed(seed)
		images, labels = [], []
		for n in range(count):
		    label, at = random.randrange(4), random.randrange(2, size - 2)
		    noise = random.randbytes(size * size)
		    plane = bytearray(x // 4 for x in noise)
		    for i in range(size):
		        along = [(i, at), (at, i), (i, (i + at) % size), (i, (at - i) % size)][label]
		        plane[along[0] * size + along[1]] = 255
		    images.append(bytes(plane))
		    labels.append(label)
		with open(name, "wb") as f:
		    if kind == "idx":
		        f.write(struct.pack(">4B3I", 0, 0, 8, 3, count, size, size) + b"".join(images))
		        with open(name.replace("images-idx3", "labels-idx1"), "wb") as g:
		            g.write(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))
		    for image, label in zip(images, labels):
		        if kind != "idx":
		            f.write(bytes([label] if kind == "cifar10" else [9, label]) + 3 * image)
	END
}

# job KEY=VALUE...
job() {
	printf '%s\n' JOB=j BATCH=64 SHUFFLE=samples OPTIMIZER=adam,lr:0.003 "$@" >job.env
	rm -rf run
	run --separate-stderr trainctl run job.env --run-dir run 3>&-
	echo "$stderr"
}

@test "idx: mlp and conv learn bars; the same from files packed by gzip; scores, classes as labels" {
	bars idx train-images-idx3-ubyte 1200 1 12
	bars idx t10k-images-idx3-ubyte 300 2 12
	job DATA=train-images-idx3-ubyte TEST=t10k-images-idx3-ubyte EPOCHS=12 MODEL=conv,image:12-12-1,channels:8-16
	[ "$status" = 0 ]
	checkpoint=$(ckpt latest run/state/checkpoints)
	[ "$(grep -c . "$checkpoint/schema")" = 6 ]
	grep -q '^schema version=1 format=idx pixels=144 scale=none ' "$checkpoint/schema"
	grep -q ' name=conv dense-inputs=144 fields=0 .* classes=4 channels=8,16 image=12,12,1$' "$checkpoint/model"
	[ "$(grep -o '^tensor name=[a-z0-9.]*' "$checkpoint/layout" | cut -d= -f2 | tr '\n' ' ')" = "conv1.weight conv1.bias conv2.weight conv2.bias output.weight output.bias " ]
	predict -c "$checkpoint" t10k-images-idx3-ubyte >scores
	[ "$(auc --labels class <scores)" = "auc logloss= accuracy=$(field accuracy <run/state/summary) n=300" ]
	awk -v a="$(field accuracy <run/state/summary)" 'BEGIN { exit !(a > 0.8) }'
	# Labels are those of the file beside; without it there are scores all the same.
	[ "$(cut -d' ' -f2 scores)" = "$(tail -c 300 t10k-labels-idx1-ubyte | od -An -v -tu1 -w1 | tr -d ' ')" ]
	[ "$(predict -c "$checkpoint" <t10k-images-idx3-ubyte | sort -u)" = "$(sed 's/ .*/ -/' scores | sort -u)" ]
	gzip -k t10k-*
	mkdir packed && mv t10k-*.gz packed
	[ "$(predict -c "$checkpoint" packed/t10k-images-idx3-ubyte.gz)" = "$(cat scores)" ]
	gzip -d packed/t10k-labels-idx1-ubyte.gz
	[ "$(predict -c "$checkpoint" packed/t10k-images-idx3-ubyte.gz)" = "$(cat scores)" ]
	job DATA=train-images-idx3-ubyte TEST=t10k-images-idx3-ubyte EPOCHS=20 MODEL=mlp,hidden:64
	[ "$status" = 0 ]
	awk -v a="$(field accuracy <run/state/summary)" 'BEGIN { exit !(a > 0.5) }'
}

@test "idx: one against the rest, by POSITIVE; labels as numbers" {
	bars idx train-images-idx3-ubyte 800 1 12
	job DATA=train-images-idx3-ubyte TEST=train-images-idx3-ubyte EPOCHS=6 POSITIVE=2 MODEL=mlp,labels:binary,hidden:32
	[ "$status" = 0 ]
	awk -v a="$(field auc <run/state/summary)" 'BEGIN { exit !(a > 0.9) }'
	job DATA=train-images-idx3-ubyte TEST=train-images-idx3-ubyte EPOCHS=6 MODEL=mlp,labels:real,hidden:32
	[ "$status" = 0 ]
	awk -v e="$(field rmse <run/state/summary)" 'BEGIN { exit !(e > 0.01 && e < 1.1) }'
}

# scores EXPORT LAYERS ROWS: probabilities of images of cifar10 by conv, as another program computes them.
scores() {
	python3 - "$@" <<-'END'
		import array, json, math, struct, sys
		data = open(sys.argv[1], "rb").read()
		(length,) = struct.unpack_from("<Q", data)
		header = json.loads(data[8:8 + length])
		def tensor(name):
		    begin, end = (8 + length + at for at in header[name]["data_offsets"])
		    return array.array("f", data[begin:end])
		def layer(planes, weight, bias):
		    size, out = len(planes[0]), []
		    for o, b in enumerate(bias):
		        y = [[b] * size for _ in range(size)]
		        for c, plane in enumerate(planes):
		            for k in range(9):
		                w, down, right = weight[(o * len(planes) + c) * 9 + k], k // 3 - 1, k % 3 - 1
		                for r in range(max(0, -down), min(size, size - down)):
		                    for x in range(max(0, -right), min(size, size - right)):
		                        y[r][x] += w * plane[r + down][x + right]
		        out.append([[max(0, y[2 * r][2 * x], y[2 * r][2 * x + 1], y[2 * r + 1][2 * x],
		                         y[2 * r + 1][2 * x + 1]) for x in range(size // 2)] for r in range(size // 2)])
		    return out
		rows = open(sys.argv[3], "rb").read()
		for at in range(0, len(rows), 3073):
		    x = [v / 255 for v in rows[at + 1:at + 3073]]
		    h = [[x[c * 1024 + r * 32:][:32] for r in range(32)] for c in range(3)]
		    for i in range(1, int(sys.argv[2]) + 1):
		        h = layer(h, tensor(f"conv{i}.weight"), tensor(f"conv{i}.bias"))
		    h = [v for plane in h for row in plane for v in row]
		    w, bias = tensor("output.weight"), tensor("output.bias")
		    z = [b + sum(p * q for p, q in zip(w[k * len(h):], h)) for k, b in enumerate(bias)]
		    e = [math.exp(v - max(z)) for v in z]
		    print(*(f"{v / sum(e):.7f}" for v in e))
	END
}

@test "conv: another program, the same scores" {
	bars cifar10 train.bin 200 1
	head -c $((20 * 3073)) train.bin >some.bin
	job FORMAT=cifar10 DATA=train.bin EPOCHS=1 MODEL=conv,channels:3-2-3
	[ "$status" = 0 ]
	checkpoint=$(ckpt latest run/state/checkpoints)
	ckpt export "$checkpoint" model.safetensors
	predict -c "$checkpoint" --probabilities all some.bin | cut -d' ' -f4- >right
	scores model.safetensors 3 some.bin | paste -d' ' right - | awk '
		{ for (k = 1; k <= 4; k++) { d = $k - $(k + 4); if (NF != 8 || d > 1e-4 || d < -1e-4) { print; bad = 1 } } }
		END { exit bad || NR != 20 }'
}

@test "cifar10 and cifar100: the label before an image, or the second of two" {
	for format in cifar10 cifar100; do
		bars $format train.bin 400 1
		bars $format test.bin 100 2
		job FORMAT=$format DATA=train.bin TEST=test.bin EPOCHS=3 MODEL=conv,channels:8-8-8
		[ "$status" = 0 ]
		awk -v a="$(field accuracy <run/state/summary)" 'BEGIN { exit !(a > 0.6) }'
		[ "$(grep ^class "$(ckpt latest run/state/checkpoints)/schema" | tr '\n' ' ')" = "class name=0 class name=1 class name=2 class name=3 " ]
	done
}

@test "idx: what its header says is true, or the file is refused" {
	bars idx a-images-idx3-ubyte 20 1 8
	schema=$'schema version=1 format=idx pixels=64 labels=class\nclass name=0\nclass name=1\nclass name=2\nclass name=3\nend'
	[ "$(rowidx --count a-images-idx3-ubyte)" = 20 ]
	[ "$(rowidx --count - <a-images-idx3-ubyte)" = 20 ]
	rowidx a-images-idx3-ubyte
	head -n 1 a-images-idx3-ubyte.rowidx | grep -q ' format=idx pixels=64 '
	rowidx --check a-images-idx3-ubyte
	run -78 rowidx --cat a-images-idx3-ubyte 3 2
	[[ "$output" == *"rows are bytes"* ]]
	echo "$schema" >schema
	run -78 rowidx --pack schema a-images-idx3-ubyte
	[[ "$output" == *"needs no cache"* ]]
	# Cut short, or longer.
	head -c 1000 a-images-idx3-ubyte >b-images-idx3-ubyte
	run -65 rowidx --count b-images-idx3-ubyte
	[[ "$output" == *"b-images-idx3-ubyte:16: it ends within a row; rows of FORMAT=idx have 64 bytes here"* ]]
	head -c 976 a-images-idx3-ubyte >b-images-idx3-ubyte
	run -65 rowidx --count b-images-idx3-ubyte
	[[ "$output" == *"b-images-idx3-ubyte:16: it ends here, before its header says"* ]]
	{ cat a-images-idx3-ubyte; printf x; } >b-images-idx3-ubyte
	run -65 rowidx --count b-images-idx3-ubyte
	[[ "$output" == *"b-images-idx3-ubyte:21: there are more bytes than its header says"* ]]
	for head in '' '\0\0' '\0\0\13\3\0\0\0\1\0\0\0\1\0\0\0\1xxxx' '\0\0\10\5'; do
		printf "$head" >b-images-idx3-ubyte
		run -65 rowidx --count -f idx b-images-idx3-ubyte
		[[ "$output" == *"b-images-idx3-ubyte: is "*idx* ]]
	done
	run -65 rowidx --count -f idx a-labels-idx1-ubyte
	[[ "$output" == *"holds labels, not images"* ]]
	printf '\0\0\10\3\0\0\0\1\377\377\377\377\377\377\377\377' >b-images-idx3-ubyte
	run -65 rowidx --count b-images-idx3-ubyte
	[[ "$output" == *"its images have 18446744065119617025 bytes, not 1 to 4096"* ]]
}

@test "trainctl init: a job file for images" {
	bars idx train-images-idx3-ubyte 400 1 12
	bars idx t10k-images-idx3-ubyte 100 2 12
	run -0 trainctl init train-images-idx3-ubyte -o a.env
	[[ "$output" == "train-images-idx3-ubyte: idx, 400 rows"* ]]
	[[ "$output" == *"images   12-12-1 (height, width, channels); labels are classes"* ]]
	[[ "$output" == *"test     t10k-images-idx3-ubyte, found beside it"* ]]
	for line in FORMAT=idx MODEL=mlp,hidden:256 OPTIMIZER=adam,lr:0.001 TEST=t10k-images-idx3-ubyte; do
		grep -qx "$line" a.env
	done
	run -0 trainctl run a.env --set EPOCHS=2 --set MODEL=scale:z 3>&-
	[[ "$output" == *"MODEL scale has no effect here: bytes of images are divided by 255"* ]]
	bars cifar100 train.bin 20 1
	bars cifar100 test.bin 5 2
	run -0 trainctl init train.bin -o b.env
	grep -qx FORMAT=cifar100 b.env
	grep -qx TEST=test.bin b.env
	run -64 trainctl init train.bin -o c.env --positive 3
	[[ "$output" == *"labels of images are classes"* ]]
	head -c 3000 train.bin >d.bin
	run -65 trainctl init d.bin
	[[ "$output" == *"is no text"*"idx and the files of CIFAR"* ]]
}

@test "a worker is killed: each image is trained exactly once in an epoch" {
	bars idx a-images-idx3-ubyte 2000 1 8
	job_lines=(JOB=j DATA=a-images-idx3-ubyte MODEL=audit POSITIVE=1 EPOCHS=3 WORKERS=2 SERVERS=1 BATCH=40 RESTARTS=shard:never)
	printf '%s\n' "${job_lines[@]}" >job.env
	slow 200
	begin first
	wait_for 'came_to 600'
	kill -9 "$(pid_of w1)"
	rm drag/*
	wait $SUPERVISOR
	exact "$(last first.out checkpoint)" 2000 3
}

@test "labels that are changed while a job trains: a worker that begins again does not train on them" {
	bars idx a-images-idx3-ubyte 1000 1 8
	printf '%s\n' JOB=j DATA=a-images-idx3-ubyte MODEL=softmax EPOCHS=3 WORKERS=1 SERVERS=1 BATCH=40 >job.env
	slow 200
	begin first
	wait_for 'came_to 200'
	printf '\377' | dd of=a-labels-idx1-ubyte bs=1 seek=500 conv=notrunc status=none
	kill -9 "$(pid_of w0)"
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 78 ]
	grep -q "a-labels-idx1-ubyte: was changed since the job began" first.err
}

@test "images in a .gz are unpacked once: later epochs read none of its bytes" {
	bars idx a-images-idx3-ubyte 400 1 8
	gzip a-images-idx3-ubyte
	printf '%s\n' JOB=j DATA=a-images-idx3-ubyte.gz FORMAT=idx MODEL=softmax EPOCHS=4 WORKERS=1 SERVERS=1 BATCH=100 >job.env
	slow 200
	begin first
	wait_for 'came_to 500'
	# Zeros in their place, and the old time: only who reads them again sees that.
	cp -p a-images-idx3-ubyte.gz old
	head -c "$(stat -c %s old)" /dev/zero | dd of=a-images-idx3-ubyte.gz conv=notrunc status=none
	touch -r old a-images-idx3-ubyte.gz
	rm drag/*
	ended $SUPERVISOR
	[ "$status" -eq 0 ]
}

@test "labels of an idx file: missing, fewer than images, damaged" {
	keys=(DATA=a-images-idx3-ubyte MODEL=mlp,hidden:4)
	bars idx a-images-idx3-ubyte 20 1 8
	mv a-labels-idx1-ubyte labels
	job "${keys[@]}"
	[ "$status" = 66 ]
	[[ "$stderr" == *"a-labels-idx1-ubyte: is not there: it should have the labels of a-images-idx3-ubyte"* ]]
	{ printf '\0\0\10\1\0\0\0\23'; tail -c 19 labels; } >a-labels-idx1-ubyte
	job "${keys[@]}"
	[ "$status" = 65 ]
	[[ "$stderr" == *"holds 20 images, and "*"a-labels-idx1-ubyte 19 labels"* ]]
	head -c 20 labels >a-labels-idx1-ubyte
	job "${keys[@]}"
	[ "$status" = 65 ]
	[[ "$stderr" == *"holds 12 labels; its header says 20 (cut short?)"* ]]
	: >a-labels-idx1-ubyte
	job "${keys[@]}"
	[ "$status" = 65 ]
	[[ "$stderr" == *"is no idx file of labels"* ]]
	cp labels a-labels-idx1-ubyte
	ln -s a-images-idx3-ubyte pictures
	job FORMAT=idx DATA=pictures MODEL=mlp
	[ "$status" = 65 ]
	[[ "$stderr" == *"its labels are not found"* ]]
	# One class, or a byte that is no label of a known class.
	{ printf '\0\0\10\1\0\0\0\24'; head -c 20 /dev/zero; } >a-labels-idx1-ubyte
	job "${keys[@]}"
	[ "$status" = 65 ]
	[[ "$stderr" == *"all rows have the label '0': there is nothing to tell apart"* ]]
	cp labels a-labels-idx1-ubyte
	job "${keys[@]}" EPOCHS=1
	[ "$status" = 0 ]
	{ printf '\0\0\10\1\0\0\0\24\377'; tail -c 19 labels; } >a-labels-idx1-ubyte
	# They are data: a job that has begun does not go on with others.
	run -78 trainctl run job.env --run-dir run 3>&-
	[[ "$output" == *"a-labels-idx1-ubyte: was changed since the job began: DATA is not what "* ]]
	run -65 predict -c "$(ckpt latest run/state/checkpoints)" a-images-idx3-ubyte
	[[ "$output" == *"a-images-idx3-ubyte:1:1: label '255' is none of the 4 classes"* ]]
}

@test "cifar10: files that are not whole rows; an image that does not fit the model; text where bytes belong" {
	bars cifar100 a.bin 10 1
	run -65 rowidx --count -f cifar10 a.bin
	[[ "$output" == *"a.bin:11: it ends within a row; rows of FORMAT=cifar10 have 3073 bytes here"* ]]
	[ "$(rowidx --count -f cifar100 a.bin)" = 10 ]
	job FORMAT=cifar100 DATA=a.bin MODEL=conv,image:28-28-1
	[ "$status" = 78 ]
	[[ "$stderr" == *"an image of 28-28-1 has 784 values, and the data have 3072 dense columns"* ]]
	job FORMAT=cifar100 DATA=a.bin MODEL=conv,channels:4-4-4-4-4-4
	[ "$status" = 78 ]
	[[ "$stderr" == *"nothing is left of an image of 32-32 after 6 layers"* ]]
	job FORMAT=cifar100 DATA=a.bin TRAINER="'cat'"
	[ "$status" = 78 ]
	# A class that the format does not have.
	printf '\143' | dd of=a.bin bs=1 seek=$((3 * 3074 + 1)) conv=notrunc status=none
	job FORMAT=cifar100 DATA=a.bin MODEL=conv,channels:4
	[ "$status" = 0 ]
	printf '\144' | dd of=a.bin bs=1 seek=$((3 * 3074 + 1)) conv=notrunc status=none
	job FORMAT=cifar100 DATA=a.bin MODEL=conv,channels:4
	[ "$status" = 65 ]
	[[ "$stderr" == *"a.bin:4:2: label 100: FORMAT=cifar100 has classes 0 to 99"* ]]
	# A batch larger than the data, and one row of each class.
	bars cifar10 two.bin 12 1
	job FORMAT=cifar10 DATA=two.bin MODEL=conv,channels:4 EPOCHS=2 BATCH=512
	[ "$status" = 0 ]
	printf '\143' | dd of=two.bin bs=1 seek=3073 conv=notrunc status=none
	job FORMAT=cifar10 DATA=two.bin MODEL=conv,channels:4
	[ "$status" = 65 ]
	[[ "$stderr" == *"two.bin:2:1: label 99: FORMAT=cifar10 has classes 0 to 9"* ]]
}
