# What DATA may be: names, formats, separators, packings; and what is said where it can't be read.
# rooms: data partition
load helper

# refused STATUS TEXT [KEY=VALUE]...: the job of job.env, with these keys.
refused() {
	local status_wanted=$1 text=$2 word set=()
	shift 2
	for word; do set+=(--set "$word"); done
	run run_job --fresh "${set[@]}"
	echo "$output"
	[ "$status" -eq "$status_wanted" ]
	[[ $output == *"$text"* ]]
}

# same_model DIR: a run there has made a model that scores d.csv as that of the first run does.
same_model() {
	[ -e first ] || predict -c "$(ckpt latest run/state/checkpoints)" d.csv >first
	predict -c "$(ckpt latest "$1/state/checkpoints")" --format csv --separator , d.csv | cmp first -
}

@test "csv, tsv, semicolons: the same rows, the same model" {
	data 400
	tr , '\t' <d.csv >d.tsv
	tr , ';' <d.csv >d.txt
	job WORKERS=1 SERVERS=1
	run_job >out
	same_model run
	trainctl run job.env --run-dir "$T/tsv" --set DATA="$T/d.tsv" >out
	same_model tsv
	grep -qx FORMAT=format:tsv,separator:tab,cache:on tsv/state/job.env
	trainctl run job.env --run-dir "$T/semicolon" --set DATA="$T/d.txt" --set FORMAT=separator:semicolon >out
	same_model semicolon
	(. semicolon/state/job.env && [ "$FORMAT" = format:csv,separator:semicolon,cache:on ])
}

@test "the wrong separator, no header, no label column: what to do is said" {
	data 400
	job
	tr , ';' <d.csv >semicolon.csv
	refused 65 "semicolon.csv:1: no column 'y': the header has 1 column; did you mean FORMAT='csv,separator:;'?" \
		DATA="$T/semicolon.csv"
	tr , '\t' <d.csv >d.tsv
	refused 65 "d.tsv:1: no column 'y': the header has 1 column; did you mean FORMAT=tsv?" \
		DATA="$T/d.tsv" FORMAT=csv
	tail -n +2 d.csv | tr -d c >numbers.csv
	refused 65 "numbers.csv:1: no column 'y': the first line holds numbers" DATA="$T/numbers.csv"
	grep -v LABEL job.env >no-label.env
	run trainctl run no-label.env --run-dir "$T/run" --set DATA="$T/d.tsv" --set DENSE= --set SPARSE=
	[ "$status" -eq 65 ]
	[[ $output == *"d.tsv:1:"*"if this is a header, say FORMAT=tsv and LABEL="* ]]
	refused 78 "FORMAT separator: 'xx' is neither one character" FORMAT=separator:xx
	refused 78 "FORMAT separator: is for csv and tsv; FORMAT is criteo" FORMAT=criteo,separator:semicolon LABEL=
}

@test "names with blanks, quoted as in sh: in the job file, sourced by sh, on the workers' lines" {
	data 400
	mkdir "of today"
	cp d.csv "of today/my rows.csv"
	cp d.csv "it's.csv"
	job
	cat >>job.env <<-'END'
		DATA="'of today/my rows.csv' it\\'s.csv \"d.csv\""
		TEST="'of today/my rows.csv'"
	END
	run_job >out
	[ "$(tail -n 1 out | field samples)" = 1200 ]
	[ -n "$(tail -n 1 out | field auc)" ]
	grep '^DATA=' run/state/job.env >line
	(. "$T/run/state/job.env" && eval "set -- $DATA" && [ "$2" = "$T/it's.csv" ] && [ $# = 3 ])
	# The state's own job file is a job file.
	cp run/state/job.env again.env
	run trainctl run again.env --run-dir "$T/run"
	[ "$status" -eq 0 ]
	[[ $output == *"has been finished"* ]]
}

@test "a name with blanks that is not quoted: how to write it is said" {
	data 400
	cp d.csv "my own rows.csv"
	job FORMAT=csv
	refused 66 "a name with blanks is quoted inside of DATA: DATA=\"'my own rows.csv'\"" \
		DATA="$T/my own rows.csv"
	refused 66 "TEST: $T/my: can't be read: No such file or directory; a name with blanks" \
		TEST="d.csv my own rows.csv"
	refused 66 "names are taken literally, * ? and [ too" DATA='*.csv'
	refused 78 "DATA: the single quote is not closed: O'Brien.csv" DATA="O'Brien.csv"
	refused 78 "DATA: an empty name" DATA="'' d.csv"
}

@test "what is no file of rows is named, and what to do" {
	job FORMAT=csv
	mkfifo fifo
	mkdir dir
	: >empty.csv
	refused 78 "DATA: - means standard input, and a file is needed" DATA=-
	refused 78 "TEST: - means standard input" TEST=-
	refused 66 "fifo: is a pipe, but a file is needed: rows are read by number, and more than once. Write one first: COMMAND | pzstd" \
		DATA=fifo
	refused 66 "TEST: $T/fifo: is a pipe" TEST=fifo
	refused 66 "dir: is a directory" DATA=dir
	refused 66 "/dev/null: is a device" DATA=/dev/null
	refused 65 "empty.csv: is empty: no header line" DATA=empty.csv
	refused 66 "none.csv: can't be read: No such file" DATA=none.csv
	printf 'PAR1\025rows' >rows.parquet
	refused 65 "rows.parquet: is Parquet, which Paceline does not read; write its rows as csv" DATA=rows.parquet
	rm fifo
}

@test "a third label is named with its rows and its first place" {
	awk 'BEGIN { print "y,a,b"; for (i = 0; i < 400; i++)
		print (i == 7 || i == 9 ? "maybe" : i % 3 ? "no" : "yes") "," i "," i % 5 }' >d.csv
	job POSITIVE=yes
	run run_job
	[ "$status" -eq 0 ]
	[[ $output == *"DATA has more than two labels: 'no' (0): 265 rows, first at d.csv:3; 'yes' (1): 133 rows, first at d.csv:2; 'maybe' (0): 2 rows, first at d.csv:9. With NEGATIVE='no', a row with any third label is a bad row"* ]]
	# Without dense columns to be fitted, too.
	run run_job --fresh --set DENSE=
	[ "$status" -eq 0 ]
	[[ $output == *"'maybe' (0): 2 rows, first at d.csv:9."* ]]
	refused 65 "d.csv:9:1: label 'maybe' is neither 'yes' nor 'no'. Labels of all 400 rows: 'no' (0): 265 rows" \
		NEGATIVE=no
	refused 65 "d.csv:2:1: label 'yes' is neither 0 nor 1; POSITIVE= says which value means 1. Labels of all 400 rows: 'no' (bad row): 265 rows, first at d.csv:3; 'yes' (bad row): 133 rows" \
		POSITIVE=
	run run_job --fresh --set NEGATIVE=no --set BAD_ROWS=skip:5
	[ "$status" -eq 0 ]
	[[ $output == *"'maybe' (bad row): 2 rows, first at d.csv:9"* ]]
	[ "$(tail -n 1 <<<"$output" | field bad-rows)" = 2 ]
	sed -i s/maybe/no/ d.csv
	run run_job --fresh
	[ "$status" -eq 0 ]
	[[ $output != *"more than two"* ]]
}

@test "packed with gzip and zstd: the same rows, the same model" {
	command -v zstd >/dev/null || skip "no zstd here"
	data 2000
	gzip -k d.csv
	split -l 300 --filter='zstd -q' d.csv >d.csv.zst
	job WORKERS=1 SERVERS=1
	run_job >out
	same_model run
	for packing in gz zst; do
		trainctl run job.env --run-dir "$T/$packing" --set DATA="$T/d.csv.$packing" >out
		same_model $packing
	done
	head -c 3000 d.csv.zst >cut.csv.zst
	refused 65 "cut.csv.zst: byte 3000: the zstd data ends too early (truncated file?)" DATA=cut.csv.zst
}

@test "a .tsv without LABEL is criteo" {
	awk 'BEGIN { for (i = 0; i < 200; i++) {
		line = i % 2
		for (k = 1; k <= 13; k++) line = line "\t" (i * k) % 17
		for (k = 1; k <= 26; k++) line = line "\tc" (i + k) % 5
		print line } }' >d.tsv
	printf '%s\n' JOB=clicks "DATA=$T/d.tsv" BATCH=64 >job.env
	run_job >out
	grep -qx FORMAT=format:criteo,separator:auto,cache:on run/state/job.env
	run run_job
	[ "$status" -eq 0 ]
	[[ $output == *"this job has been finished"* ]]
	run run_job --set LABEL=y --set DENSE=a
	[ "$status" -eq 78 ]
	[[ $output == *"holds the state of this job with another "*"FORMAT"*"--fresh starts over"* ]]
	run run_job --set LABEL=y --set DENSE=a --fresh
	[ "$status" -eq 65 ]
	[[ $output == *"d.tsv:1: no column 'y': the first line looks like a row of FORMAT=criteo, which has no header"* ]]
}
