# rooms: data
load helper

# Ten csv rows, some quoted over lines, CRLF and blank lines between, no newline at the end.
make_csv() {
	printf '\xef\xbb\xbfn,text\r\n'
	printf '0,a\r\n1,"b\r\n\r\nb"\r\n\r\n2,"x""y,"\n3,c\n  \n4,d"e\n5,\n6,"\n"\n7,f\n8,g\n9,last'
}

# seq_rows N: rows of different lengths that begin with their number.
seq_rows() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%d,%*d\n", i, i % 97, i * i }'; }

@test "usage: help and version exit 0, mistakes 64" {
	run -0 rowidx --help
	[[ $output == "usage: rowidx "* ]]
	run -0 rowidx --version
	run -64 rowidx
	run -64 rowidx a b
	run -64 rowidx --cat a 1
	run -64 rowidx --cat a 1 -2
	run -64 rowidx --cat a 1 x
	[[ $output == *"LENGTH: 'x' is not a whole number"* ]]
	run -64 rowidx --count --cat a 1 2
	run -64 rowidx --format arff a
	run -64 rowidx -
	run -64 rowidx a -o -
	run -64 rowidx --count - -o index
	run -64 rowidx --cat a 1 2 3 4
}

@test "builds FILE.rowidx or -o, before or behind FILE, and builds it once" {
	seq_rows 1000 >data
	run -0 rowidx data
	[ "$output" = "" ]
	[[ $(head -n 1 data.rowidx) == "paceline-index version=3 format=csv compression=none rows=999 lines=1000 "* ]]
	rowidx -o one data
	rowidx data -o two
	cmp one two
	cmp one data.rowidx
	before=$(stat -c %i data.rowidx)
	rowidx data
	[ "$(stat -c %i data.rowidx)" = "$before" ]
	rowidx --force data
	[ "$(stat -c %i data.rowidx)" != "$before" ]
	[ ! -e data.rowidx.tmp.* ]
}

@test "--count: rows, not lines, of every format" {
	make_csv >data.csv
	[ "$(rowidx --count data.csv)" = 10 ]
	[ "$(make_csv | rowidx --count -)" = 10 ]
	[ "$(rowidx --count --format lines data.csv)" = 16 ]
	printf '# made by hand\n1 1:2\n\n-1 2:3 # x\n' >data.svm
	[ "$(rowidx --count data.svm)" = 2 ]
	[ "$(gzip -c data.svm | rowidx --count -)" = 2 ]
	printf 'a b\n\nc' >text
	[ "$(rowidx --count text)" = 3 ]
	: >empty
	[ "$(rowidx --count empty)" = 0 ]
	[ "$(rowidx --count - <empty)" = 0 ]
	printf 'only,a,header\n' >header
	[ "$(rowidx --count header)" = 0 ]
}

@test "a separator says which quote opens a field; the index keeps it" {
	printf 'y;text\n1;"a\nb"\n0;c\n' >data
	[ "$(rowidx --count data)" = 2 ]
	[[ $(head -n 1 data.rowidx) == "paceline-index version=3 format=csv separator=; compression=none rows=2 "* ]]
	[ "$(rowidx --count --format csv data)" = 3 ]
	[ "$(rowidx --count --separator ';' data)" = 2 ]
	[ "$(rowidx --cat - 0 1 <data)" = "$(printf '1;"a\nb"')" ]
	run -0 rowidx --check data
	printf 'y\ttext\n1\t"a\nb"\n' >tabs
	[ "$(rowidx --count --format tsv tabs)" = 1 ]
	[[ $(head -n 1 tabs.rowidx) == "paceline-index version=3 format=tsv compression="* ]]
	[ "$(rowidx --count --separator tab - <tabs)" = 1 ]
	run -64 rowidx --separator x data
	[[ $output == *"FORMAT separator: 'x' is neither one character"* ]]
	run -64 rowidx --format libsvm --separator ';' data
}

@test "--cat: the rows as they are, from plain, gzip and a stream" {
	make_csv >data
	make_csv | gzip >data.gz
	printf '1,"b\r\n\r\nb"\r\n2,"x""y,"\n3,c\n' >want
	for file in data data.gz; do
		rowidx --cat "$file" 1 3 | cmp - want
		rowidx --cat - 1 3 <"$file" | cmp - want
		[ "$(rowidx --cat "$file" 9 1 | od -c)" = "$(printf '9,last' | od -c)" ]
		run -0 rowidx --cat "$file" 4 0
		[ "$output" = "" ]
		run -1 rowidx --cat "$file" 8 5
		[[ $output == *"8,g"*"9,last"*"of the 5 rows from 8 on only 2 are there"* ]]
		run -1 rowidx --cat "$file" 10 1
		run -1 rowidx --cat - 10 1 <"$file"
	done
}

@test "--cat of any row of a long file of several gzip members" {
	seq_rows 60000 >rows
	(echo head,er; cat rows) >data
	(head -n 20000 data | gzip -9; sed -n 20001,20010p data | gzip -1; tail -n +20011 data | gzip) >data.gz
	for file in data data.gz; do
		for begin in 0 1 19998 19999 20009 20010 33333 59990; do
			rowidx --cat "$file" $begin 10 >have
			tail -n +$((begin + 1)) rows | head -n 10 | cmp - have
		done
	done
	[ "$(grep -c 'points=[2-9]' data.gz.rowidx)" = 1 ]
	rowidx --cat data.gz 0 60000 | cmp - rows
}

@test "hidden in the text: NUL bytes, lone carriage returns, bytes that are no UTF-8" {
	printf 'a\0b\n\r\r\n\0\n\xff\xfe\n' >data
	[ "$(rowidx --count data)" = 4 ]
	rowidx --cat data 0 4 | cmp - data
	head -c 300000 /dev/urandom >noise
	n=$(rowidx --count --format lines noise)
	rowidx --cat noise 0 "$n" | cmp - noise
}

@test "without --format the format of the index holds, another one builds anew" {
	printf 'a,b\nc,d\n' >data
	rowidx --format lines data
	[ "$(rowidx --count data)" = 2 ]
	[ "$(rowidx --count --format csv data)" = 1 ]
	[ "$(rowidx --count data)" = 1 ]
}

@test "a stale index is noticed: size, time, first bytes; --check says so" {
	printf 'a b\nc d\n' >data
	rowidx data
	run -0 rowidx --check data
	echo e >>data
	run -1 rowidx --check data
	[[ $output == *"data.rowidx: stale: the data file has another size"* ]]
	[ "$(rowidx --count data)" = 3 ]
	run -0 rowidx --check data
	touch -d '2001-01-01' data
	run -1 rowidx --check data
	[[ $output == *"changed since"* ]]
	rowidx data
	printf 'a\nb c\nd\n' >data
	touch -d '2001-01-01' data
	run -1 rowidx --check data
	[ "$(rowidx --count data)" = 3 ]
}

@test "a damaged index is noticed and built anew" {
	seq_rows 5000 | gzip >data
	rowidx data
	cp data.rowidx good
	printf 'X' | dd of=data.rowidx bs=1 seek=60 conv=notrunc status=none
	run -1 rowidx --check data
	[[ $output == *"data.rowidx: damaged index"* ]]
	[ "$(rowidx --count data)" = 4999 ]
	cmp data.rowidx good
	printf 'X' | dd of=data.rowidx bs=1 seek=$(($(stat -c %s good) - 9)) conv=notrunc status=none
	run -1 rowidx --check data
	head -c 100 good >data.rowidx
	rowidx --cat data 4998 1
	cmp data.rowidx good
	: >data.rowidx
	rowidx data
	cmp data.rowidx good
	rm data.rowidx
	run -66 rowidx --check data
}

@test "--check compares with the whole file, not only with its head" {
	seq_rows 60000 >data
	rowidx data
	t=$(stat -c %y data)
	printf '\n' | dd of=data bs=1 seek=1000001 conv=notrunc status=none
	touch -d "$t" data
	run -1 rowidx --check data
	[[ $output == *"other rows"* || $output == *"begin elsewhere"* ]]
}

@test "a truncated gzip file: its name, the byte, 65, and no index" {
	seq_rows 20000 | gzip >whole
	for bytes in 5 20 5000 $(($(stat -c %s whole) - 3)); do
		head -c "$bytes" whole >data.gz
		run -65 rowidx data.gz
		[[ $output == *"data.gz: byte $bytes: the gzip data ends too early"* ]]
		[ ! -e data.gz.rowidx ]
		run -65 rowidx --count - <data.gz
		[[ $output == *"stdin: byte $bytes: "* ]]
	done
	(cat whole; echo tail) >data.gz
	run -65 rowidx data.gz
	[[ $output == *"behind the last member"* ]]
	(cat whole; head -c 700 /dev/zero) >data.gz
	[ "$(rowidx --count data.gz)" = 19999 ]
}

@test "zstd: one frame, several, those of pzstd: the same rows, an index of frames" {
	command -v zstd >/dev/null || skip "no zstd here"
	seq_rows 120000 >rows
	(echo head,er; cat rows) >data
	split -C 2500K --filter='zstd -q' data >frames.zst
	zstd -q -19 data -o one.zst
	# What pzstd writes: before each frame one to be skipped.
	(for part in 1,60000 '60001,$'; do
		printf '\x50\x2a\x4d\x18\x04\0\0\0four'
		sed -n "${part}p" data | zstd -q
	done) >skips.zst
	for file in frames.zst one.zst skips.zst; do
		rowidx $file
		[[ $(head -n 1 $file.rowidx) == "paceline-index version=3 format=csv compression=zstd rows=120000 "* ]]
		for begin in 0 1 59998 59999 60000 99990 119990 7; do
			rowidx --cat $file $begin 10 >have
			tail -n +$((begin + 1)) rows | head -n 10 | cmp - have
		done
		[ "$(rowidx --count - <$file)" = 120000 ]
		run -0 rowidx --check $file
	done
	[[ $(head -n 1 frames.zst.rowidx) == *" points="[2-9]" "* ]]
	[[ $(head -n 1 one.zst.rowidx) == *" points=1 "* ]]
	: | zstd -q >empty.zst
	[ "$(rowidx --count empty.zst)" = 0 ]
}

@test "zstd: of a long frame a warning says what it costs; pzstd makes short ones" {
	command -v pzstd >/dev/null || skip "no pzstd here"
	seq_rows 9 >rows
	yes "$(cat rows)" | head -c 70000000 >data
	run -0 rowidx --count data
	local rows=$output
	zstd -q data -o one.zst
	run -0 --separate-stderr rowidx --count one.zst
	[ "$output" = "$rows" ]
	[[ $stderr == *"rowidx: one.zst: to reach a row, up to 67 MiB are decompressed, because a frame is so long; "*"zstdcat FILE | pzstd >NEW.zst" ]]
	zstdcat one.zst | pzstd -q >short.zst
	run -0 --separate-stderr rowidx --count short.zst
	[ "$output" = "$rows" ]
	[ -z "$stderr" ]
}

@test "zstd, truncated or damaged: its name, the byte, 65, and no index" {
	command -v zstd >/dev/null || skip "no zstd here"
	seq_rows 20000 | zstd -q >whole
	for bytes in 5 20 5000 $(($(stat -c %s whole) - 3)); do
		head -c "$bytes" whole >data.zst
		run -65 rowidx data.zst
		[[ $output == *"data.zst: byte $bytes: the zstd data ends too early"* ]]
		[ ! -e data.zst.rowidx ]
		run -65 rowidx --count - <data.zst
		[[ $output == *"stdin: byte $bytes: "* ]]
	done
	(cat whole; echo tail) >data.zst
	run -65 rowidx data.zst
	[[ $output == *"behind the last frame"* ]]
	cp whole data.zst
	flip data.zst $(($(stat -c %s whole) - 1)) # of the checksum
	run -65 rowidx data.zst
	[[ $output == *"data.zst: byte "*": the zstd data is damaged ("*"checksum"* ]]
	seq_rows 20000 | zstd -q --long=28 >data.zst
	run -65 rowidx data.zst
	[[ $output == *"window of more than 128 MiB"* ]]
}

@test "a row of more than 1 MiB, a quote never closed: file, line, 65" {
	(echo a,b; echo 1,2; head -c 1100000 /dev/zero | tr '\0' x) >data
	run -65 rowidx data
	[[ $output == *"data:3: row longer than 1 MiB"* ]]
	printf 'a,b\n1,2\n3,"4\n5,6\n' >data
	run -65 rowidx data
	[[ $output == *"data:3: a quote is never closed"* ]]
	run -65 rowidx --count - <data
	[[ $output == *"stdin:3: a quote is never closed"* ]]
	[ ! -e data.rowidx ]
}

@test "files that are none: missing, a directory, a pipe, a device, a socket" {
	run -66 rowidx missing
	mkdir dir
	run -66 rowidx dir
	[[ $output == *"dir: is a directory, not a file of rows" ]]
	mkfifo fifo
	run -66 rowidx --count fifo
	[[ $output == *"fifo: is a pipe, but a file is needed: rows are read by number"*"pzstd >rows.csv.zst" ]]
	run -66 rowidx /dev/null -o index
	[[ $output == *"/dev/null: is a device, but a file is needed"* ]]
	start listener socat -u UNIX-LISTEN:sock,fork /dev/null
	ready sock
	run -66 rowidx sock
	[[ $output == *"sock: is a socket, but a file is needed"* ]]
	: >empty
	[ "$(rowidx --count empty)" = 0 ]
}

@test "where no index can be kept, --count and --cat work and building is an error" {
	chmod 755 "$T"
	mkdir fixed
	seq_rows 1000 >fixed/data
	chmod 644 fixed/data
	chmod 555 fixed
	as=()
	[ "$(id -u)" != 0 ] || as=(setpriv --reuid 65534 --clear-groups)
	[ "$("${as[@]}" "$(command -v rowidx)" --count fixed/data)" = 999 ]
	[ "$("${as[@]}" "$(command -v rowidx)" --cat fixed/data 7 1)" = "$(sed -n 9p fixed/data)" ]
	run -73 "${as[@]}" "$(command -v rowidx)" fixed/data
	run -73 "${as[@]}" "$(command -v rowidx)" --count fixed/data -o fixed/index
	chmod 755 fixed
	[ "$(ls fixed)" = data ]
}

@test "an index that can't be written whole leaves the old one" {
	seq_rows 200 >data
	rowidx data
	cp data.rowidx old
	seq_rows 60000 >data
	run -74 bash -c 'trap "" XFSZ; ulimit -f 1; rowidx data'
	cmp data.rowidx old
	[ "$(ls)" = "data
data.rowidx
old" ]
}

@test "output that can't be written is 74" {
	seq_rows 1000 >data
	run -74 bash -c 'rowidx --cat data 0 900 >/dev/full'
	run -74 bash -c 'rowidx --count data >/dev/full'
}

@test "progress only on a terminal" {
	seq_rows 300000 >data
	run -0 --separate-stderr rowidx data
	[ "$stderr" = "" ]
	command -v script >/dev/null || skip "no script(1) here"
	run -0 script -qec "rowidx --force data" /dev/null
	[[ $output == *"indexing data:"*"%"* ]]
}

@test "real data: counts and rows of all samples" {
	need_data adult-train.csv.gz
	cp "$DATA"/adult-train.csv.gz "$DATA"/adult-test.csv "$DATA"/agaricus-train.svm.gz "$DATA"/criteo-sample.tsv .
	[ "$(rowidx --count adult-train.csv.gz)" = 24130 ]
	[ "$(rowidx --count adult-test.csv)" = 3016 ]
	[ "$(rowidx --count agaricus-train.svm.gz)" = 6513 ]
	[ "$(rowidx --count criteo-sample.tsv)" = 1000 ]
	zcat adult-train.csv.gz | tail -n +2 >rows
	rowidx --cat adult-train.csv.gz 0 24130 | cmp - rows
	[ "$(rowidx --cat adult-train.csv.gz 20000 1)" = "$(sed -n 20001p rows)" ]
	[ "$(rowidx --cat criteo-sample.tsv 999 1)" = "$(tail -n 1 criteo-sample.tsv)" ]
	for file in adult-train.csv.gz adult-test.csv agaricus-train.svm.gz criteo-sample.tsv; do
		run -0 rowidx --check $file
	done
}

@test "whoever only looks needs no room for an index" {
	seq_rows 1000 >data
	# No file may grow, as on a full disk; what is printed goes to pipes.
	run -0 bash -c 'trap "" XFSZ; ulimit -f 0; rowidx --count data'
	[ "$output" = 999 ]
	run -0 bash -c 'trap "" XFSZ; ulimit -f 0; rowidx --cat data 500 1'
	[[ $output == 501,* ]]
	run -74 bash -c 'trap "" XFSZ; ulimit -f 0; rowidx data'
	run -74 bash -c 'trap "" XFSZ; ulimit -f 0; rowidx --count data -o index'
	[ "$(ls)" = data ]
}

# make_packed ROWS: rows.csv, whose columns `schema` names.
make_packed() {
	printf '%s\n' 'schema version=1 format=csv label=label scale=none' 'dense name=n' 'sparse name=c' end >schema
	awk -v n="$1" 'BEGIN { print "label,n,c"; for (i = 0; i < n; i++) print i % 2 "," i "," i % 9 }' >rows.csv
}

@test "--pack: a cache beside the file, made once, checked, made again when the file changes" {
	make_packed 1000
	run -0 rowidx --pack schema rows.csv
	[[ $output == "cache path=rows.csv.rowcache rows=1000 text-rows=0 bytes="* ]]
	[ "$(field bytes <<<"$output")" = "$(stat -c %s rows.csv.rowcache)" ]
	before=$(stat -c %i rows.csv.rowcache)
	run -0 rowidx --pack schema rows.csv
	[ "$output" = "" ]
	[ "$(stat -c %i rows.csv.rowcache)" = "$before" ]
	run -0 rowidx --pack schema --check rows.csv
	rowidx --pack schema --force rows.csv
	[ "$(stat -c %i rows.csv.rowcache)" != "$before" ]
	echo 1,2,3 >>rows.csv
	run -1 rowidx --pack schema --check rows.csv
	[[ $output == "rowidx: rows.csv.rowcache: stale: the data file was changed since"* ]]
	[[ $(rowidx --pack schema rows.csv) == "cache "*" rows=1001 "* ]]
	sed -i s/name=n/name=c/ schema
	run -1 rowidx --pack schema --check rows.csv
	[[ $output == *": made with other columns or options"* ]]
}

@test "--pack: rows near a bad one stay text; damage is found" {
	make_packed 1000
	sed -i '302s/,3/,three/' rows.csv
	[[ $(rowidx --pack schema rows.csv) == *" rows=1000 text-rows=256 "* ]]
	run -0 rowidx --pack schema --check rows.csv
	printf '\377\376' | dd of=rows.csv.rowcache bs=1 seek=6000 conv=notrunc status=none
	run -1 rowidx --pack schema --check rows.csv
	[[ $output == "rowidx: rows.csv.rowcache: damaged row cache: the checksum of block 0 differs"* ]]
	truncate -s 5000 rows.csv.rowcache
	run -1 rowidx --pack schema --check rows.csv
	[[ $output == *": damaged row cache: cut short"* ]]
	rm rows.csv.rowcache
	run -66 rowidx --pack schema --check rows.csv
}

@test "--pack: what it refuses" {
	make_packed 10
	run -64 rowidx --pack schema --count rows.csv
	run -64 rowidx --pack schema -
	[[ $output == *"a stream can't be cached"* ]]
	run -64 rowidx --pack schema rows.csv -o rows
	run -66 rowidx --pack none rows.csv
	sed -i 's/ scale=none//' schema
	run -78 rowidx --pack schema rows.csv
	[[ $output == *"schema: is not fitted: means and deviations, or classes, come from all of the data"* ]]
	[ ! -e rows.csv.rowcache ]
}
