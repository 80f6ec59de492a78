# trainctl init: a job file made from what the data look like.
load helper

# people ROWS: a csv with a bit of everything; y depends on age and town.
people() {
	awk -v rows="$1" 'BEGIN {
		srand(3)
		print "id,age,town,born,note,same,zip,bought"
		split("Rome Oslo Lima", town, " ")
		for (i = 1; i <= rows; i++) {
			age = 18 + int(60 * rand())
			t = 1 + int(3 * rand())
			printf "%d,%s,%s,19%02d-03-%02d,some words that nobody %d wrote,1,%05d,%s\n", i,
				(rand() < 0.1) ? "NA" : age + 0.5, town[t], 99 - age + 18, 1 + i % 28, i,
				100 * (i % 40), (age + 15 * t + 10 * rand() > 85) ? "yes" : "no"
		}
	}'
}

key() { sed -n "s/^$1=//p" "$2"; }

@test "a job file for a csv, and the job that it starts" {
	people 600 >people-train.csv
	people 100 >people-test.csv
	run trainctl init people-train.csv --label bought
	[ "$status" -eq 0 ]
	[[ $output == "people-train.csv: csv, 600 rows"* ]]
	[[ $output == *"bought: "*"'yes' means 1"* ]]
	[[ $output == *"1 of numbers, 2 of categories, 4 left out"*"left out id, born, note, same"* ]]
	[[ $output == *"test     people-test.csv, found beside it"* ]]
	[[ $output == *"trainctl run people.env"* ]]
	[ "$(key JOB people.env)" = people ]
	[ "$(key DATA people.env)" = people-train.csv ]
	[ "$(key TEST people.env)" = people-test.csv ]
	[ "$(key FORMAT people.env)" = csv ]
	[ "$(key LABEL people.env)" = bought ]
	[ "$(key POSITIVE people.env)" = yes ]
	[ "$(key NEGATIVE people.env)" = no ]
	[ "$(key DENSE people.env)" = age ]
	[ "$(key SPARSE people.env)" = town,zip ]
	[ "$(key MISSING people.env)" = NA ]
	grep -q '^#   id  .*they name the row' people.env
	grep -q "^#   born  .*dates, like 19" people.env
	grep -q '^#   note  .*free text' people.env
	grep -q '^#   same  .*always the same' people.env
	grep -q '^#   zip  .*leading zeros' people.env
	grep -q '^#   age  .*missing (NA)' people.env
	# every key there is, once, as a comment
	trainctl init --keys >keys
	[ "$(sed -n 's/^#\([A-Z][A-Z0-9_]*\)=.*/\1/p' keys | sort -u | wc -l)" = 48 ]
	[ "$(grep -c '^#[A-Z]' keys)" = 48 ]
	not grep '^[^#]' keys
	run trainctl run people.env --run-dir run
	[ "$status" -eq 0 ]
	echo "$output" | tail -n 1 | field auc | awk '{ exit !($1 > 0.8) }'
	# sh reads the same
	(
		. ./people.env
		[ "$SPARSE" = town,zip ]
	)
}

@test "a job file is overwritten only when that is said" {
	people 100 >d.csv
	echo mine >d.env
	run trainctl init d.csv --label bought
	[ "$status" -eq 73 ]
	[ "$output" = "trainctl: d.env: is there already; --force overwrites it, -o FILE writes another" ]
	[ "$(cat d.env)" = mine ]
	trainctl init d.csv --label bought -o other.env
	[ "$(key JOB other.env)" = d ]
	trainctl init d.csv --label bought --force
	[ "$(key LABEL d.env)" = bought ]
	run trainctl init d.csv --label bought -o nowhere/d.env
	[ "$status" -eq 73 ]
}

@test "what nobody can be asked about has to be said" {
	people 100 >d.csv
	run trainctl init d.csv </dev/null
	[ "$status" -eq 64 ]
	[[ $output == *"d.csv: which column is the label? Give it with --label NAME; likely: bought"* ]]
	[ ! -e d.env ]
	run -64 trainctl init d.csv --set TRAINER=true
	[[ $output == *"copy examples/trainer.env"* ]]
	run trainctl init d.csv --label bougth
	[ "$status" -eq 65 ]
	[[ $output == *"no column 'bougth' in line 1; the nearest is 'bought'"* ]]
	run -65 trainctl init d.csv --label quantity
	[[ $output == *"no column 'quantity' in line 1, which has 'id', 'age', 'town', 'born', 'note', 'same', 'zip', 'bought'" ]]
	run trainctl init d.csv --label town --positive Paris
	[ "$status" -eq 65 ]
	[[ $output == *"no 'Paris' in column 'town'; it holds"* ]]
	run trainctl init d.csv --label same
	[ "$status" -eq 65 ]
	[[ $output == *"only one value"* ]]
	trainctl init d.csv --label town --positive Lima
	[ "$(key POSITIVE d.env)" = Lima ]
	[ -z "$(key NEGATIVE d.env)" ]
	run trainctl init
	[ "$status" -eq 64 ]
	run trainctl init -
	[ "$status" -eq 64 ]
	run trainctl init nothing.csv
	[ "$status" -eq 66 ]
}

@test "the label chooses the model: classes, numbers" {
	people 1000 >d.csv
	run -0 trainctl init d.csv --label town
	[[ $output == *" classes: MODEL=softmax (--positive VALUE makes two of them)"* ]]
	[ "$(key MODEL d.env)" = softmax ]
	[ -z "$(key POSITIVE d.env)" ]
	trainctl run d.env --run-dir run --set TEST= 2>&1 3>&- | grep -q '^summary .* state=done'
	awk -F, -v OFS=, 'NR == 1 { print $0, "price"; next } { print $0, NR * 0.37 }' d.csv >p.csv
	run -0 trainctl init p.csv --label price
	[[ $output == *"; numbers: MODEL=linear"* ]]
	[ "$(key MODEL p.env)" = linear ]
	run -65 trainctl init p.csv --label note --force
	[[ $output == *"name the one that means 1 with --positive VALUE"* ]]
}

@test "on a terminal the label and its value are asked for" {
	command -v script >/dev/null || skip "no script(1)"
	people 100 | sed 's/yes$/red/; s/no$/blue/' >d.csv
	# A name that is no column, then a number, then the value by its number.
	printf 'colour\n1\n1\n' | script -qec "trainctl init d.csv" asked >/dev/null
	grep -q 'Which column is the model to learn?' asked
	grep -q "no column 'colour'" asked
	grep -q '  1  bought  ' asked
	grep -q 'Which value of bought means 1' asked
	[ "$(key LABEL d.env)" = bought ]
	[[ $(key POSITIVE d.env) == @(red|blue) ]]
}

@test "options go before, between and behind the files; the columns of all files are looked at" {
	people 100 >a.csv
	people 50 >b.csv
	trainctl init --label bought a.csv --set WORKERS=3 --job three b.csv --set CHECKPOINT=keep:1 -o - >out 2>said
	[ "$(key DATA out)" = "'a.csv b.csv'" ]
	[ "$(key WORKERS out)" = 3 ]
	[ "$(key CHECKPOINT out)" = keep:1 ]
	[ "$(key JOB out)" = three ]
	grep -q '^a.csv: csv' said
	sed 1s/zip/ZIP/ b.csv >c.csv
	run trainctl init --label bought a.csv c.csv
	[ "$status" -eq 65 ]
	[[ $output == *"c.csv: column 7 is 'ZIP', in a.csv it is 'zip'"* ]]
	run trainctl init --label bought a.csv --set WORKER=3
	[ "$status" -eq 78 ]
	[[ $output == *"unknown key WORKER; the nearest is WORKERS"* ]]
	[ ! -e a.env ]
}

@test "a file of DATA is not the one that is scored" {
	people 100 >d-train.csv
	people 50 >d-test.csv
	run -0 trainctl init d-train.csv d-test.csv --label bought
	[[ $output == *"  test     none: d-test.csv is not taken: is a file of DATA, so it can't be the file to score; name it once, with --test"* ]]
	[ "$(key DATA d.env)" = "'d-train.csv d-test.csv'" ]
	[ -z "$(key TEST d.env)" ]
	run -64 trainctl init d-train.csv --label bought --test ./d-train.csv --force
	[[ $output == "trainctl: ./d-train.csv: is a file of DATA, "* ]]
}

@test "from elsewhere: names are whole where the job file is in another directory" {
	mkdir sub
	people 100 >sub/d.csv
	trainctl init sub/d.csv --label bought
	[ "$(key DATA d.env)" = sub/d.csv ]
	trainctl init sub/d.csv --label bought -o sub/other.env
	[ "$(key DATA sub/other.env)" = "$T/sub/d.csv" ]
}

@test "libsvm, criteo, semicolons: what runs as it stands" {
	awk 'BEGIN { srand(1); for (i = 0; i < 400; i++) { y = rand() < 0.5; printf "%d %d:1 9:0.5\n", y ? 1 : -1, 1 + y + int(2 * rand()) } }' >l.svm
	trainctl init l.svm
	[ "$(key FORMAT l.env)" = libsvm ]
	[ -z "$(key LABEL l.env)" ]
	run trainctl run l.env --run-dir run.l
	[ "$status" -eq 0 ]
	run trainctl init l.svm --label y --force
	[ "$status" -eq 64 ]
	awk 'BEGIN { for (i = 0; i < 200; i++) { printf "%d", i % 3 == 0; for (k = 0; k < 13; k++) printf "\t%d", i % (k + 2); for (k = 0; k < 26; k++) printf "\tc%d", i % (k + 3); print "" } }' >c.tsv
	trainctl init c.tsv
	[ "$(key FORMAT c.env)" = criteo ]
	run trainctl run c.env --run-dir run.c
	[ "$status" -eq 0 ]
	people 200 | tr , ';' >s.csv
	trainctl init s.csv --label bought
	[ "$(key FORMAT s.env)" = "'csv,separator:;'" ]
	run trainctl run s.env --run-dir run.s
	[ "$status" -eq 0 ]
	people 200 | tr , '\t' | gzip >t.tsv.gz
	trainctl init t.tsv.gz --label bought
	[ "$(key FORMAT t.env)" = tsv ]
	run trainctl run t.env --run-dir run.t
	[ "$status" -eq 0 ]
}

@test "documents: by the file's name, or by rows that begin with the number of their fields" {
	awk 'BEGIN { srand(2); print 0; for (i = 0; i < 300; i++) { n = int(9 * rand()); printf "%d", n
		for (k = 0; k < n; k++) printf " %d:%d", 50 * rand(), 1 + 3 * rand(); print "" } }' >lda-c.dat
	run -0 trainctl init lda-c.dat
	[[ ${lines[0]} == "lda-c.dat: bag, 301 rows" ]]
	[[ ${lines[1]} == "  words    "[34].[0-9]" different ones in a document" ]]
	[[ $output != *label* ]]
	[ "$(key FORMAT lda-c.dat.env)" = bag ]
	[ "$(key MODEL lda-c.dat.env)" = lda,topics:5 ]
	sed 's/^[0-9]*/document/' lda-c.dat | tail -n 200 | gzip >text-train.bag.gz
	cp lda-c.dat text-test.bag
	trainctl init text-train.bag.gz
	[ "$(key TEST text.env)" = "'text-test.bag'" ] || [ "$(key TEST text.env)" = text-test.bag ]
	run -0 trainctl run text.env --set EPOCHS=2 --run-dir run
	[[ $output == *" logloss="[0-9]* ]]
	# All labels are as many as the features, but one.
	{ echo '1 3:1 4:1'; cat lda-c.dat; } >almost
	trainctl init almost
	[ "$(key FORMAT almost.env)" = libsvm ]
	run -64 trainctl init text-train.bag.gz --label y --force
	[[ $output == *"--label: documents (a bag file) have no label"* ]]
	run -64 trainctl init text-train.bag.gz --positive 1 --force
	run -65 trainctl init text-train.bag.gz --test almost --force
	[[ $output == *"almost: is written as libsvm, text-train.bag.gz as bag"* ]]
	run -78 trainctl check text.env --set MODEL=lr
	[[ $output == *"FORMAT=bag is for MODEL=lda"* ]]
}

# display N: the Nth display of paceline-job(5) that writes news.bag, without its prompt.
display() {
	sed 's/\\e/\\/g' "$PACELINE_ROOT/man/paceline-job.5" |
		awk -v n="$1" '/^\.Bd/ { text = ""; next } /^\.Ed/ { if (text ~ /> news.bag/ && --n == 0) print text; next }
			{ text = text $0 "\n" }' | sed 's/^\$ //'
}

@test "documents: what paceline-job(5) says makes them of text, and of a docword file" {
	printf 'The cat sat on the mat\n\nDogs and cats, dogs!\n42\n' >news.txt
	run -65 trainctl init news.txt
	[[ $output == *"for text see TOPICS in paceline-job(5)"* ]]
	bash -c "$(display 1)"
	[ "$(cut -d ' ' -f 1 news.bag | paste -s)" = "$(printf '1\t2\t3\t4')" ]
	[ "$(sed -n 2p news.bag)$(sed -n 4p news.bag)" = 24 ]
	[[ $(sed -n 1p news.bag) == *" $(grep -nx the words | cut -d : -f 1):2"* ]]
	[[ $(sed -n 3p news.bag) == *" $(grep -nx dogs words | cut -d : -f 1):2"* ]]
	printf '4\n7\n3\n1 3 2\n1 7 1\n4 3 1\n' | gzip >docword.news.txt.gz
	bash -c "$(display 2)"
	[ "$(cat news.bag)" = "$(printf '1 3:2 7:1\n4 3:1')" ]
	trainctl init news.bag
	trainctl check news.env
}

@test "a packed file with more empty lines than anybody waits for" {
	command -v zstd >/dev/null || skip "no zstd here"
	{ people 100; yes '' | head -c 20000000; } | zstd -q >d.csv.zst
	run -0 trainctl init d.csv.zst --label bought
	[[ $output == *"looked at the first 100,"* ]]
	yes '' | head -c 5000 | zstd -q >e.csv.zst
	run -65 trainctl init e.csv.zst --label bought
	[[ $output == *"e.csv.zst: begins with 4096 bytes of blank lines; "* ]]
}

@test "thousands of columns" {
	awk 'BEGIN { srand(5); for (i = 0; i < 3000; i++) printf "column number %d,", i; print "y"
		for (r = 0; r < 60; r++) { for (i = 0; i < 3000; i++) printf "%.3f,", rand(); print r % 2 } }' >wide.csv
	run trainctl init wide.csv --label y
	[ "$status" -eq 0 ]
	[[ $output == *"3000 of numbers"* ]]
	[ "$(wc -l <wide.env)" -lt 400 ]
	run trainctl run wide.env --run-dir run
	[ "$status" -eq 0 ]
}

@test "a column that tells the label is named" {
	awk 'BEGIN { print "a,outcome,y"; for (i = 0; i < 90; i++) print i % 17 ".5," (i % 3 ? "paid" : "lost") "," (i % 3 == 0) }' >d.csv
	run trainctl init d.csv --label y
	[ "$status" -eq 0 ]
	[[ $output == *"look at  outcome: it tells the label of every row; is it known before the label is?"* ]]
	grep -q '^#   outcome .*TELLS THE LABEL' d.env
	# Of three classes: in words, in ranges of numbers; not a column with one exception.
	awk 'BEGIN { print "a,word,level,near,y"; split("lo mid hi", w); for (i = 0; i < 90; i++) { k = i % 3 + 1; print i % 17 ".5,W" k "," k * 100 + i "," (i == 7 ? "W1" : "W" k) "," w[k] } }' >c.csv
	run trainctl init c.csv --label y
	[ "$status" -eq 0 ]
	[ "$(grep -c 'it tells the label' <<<"$output")" = 2 ]
	[[ $output == *"look at  word: it tells the label of every row"* ]]
	[[ $output == *"look at  level: it tells the label of every row"* ]]
	grep -qx MODEL=softmax c.env
	grep -qx OPTIMIZER=adagrad,lr:0.2 c.env
}

@test "a column with few rows for each value is named" {
	awk 'BEGIN { print "who,town,y"; for (i = 0; i < 400; i++) print "Ann " i * 37 % 150 ",town-" i % 5 "," i % 3 % 2 }' >d.csv
	run trainctl init d.csv --label y
	[ "$status" -eq 0 ]
	[[ $output == *"look at  who: few rows for each value; leave it out if they are names"* ]]
	[[ $output != *"look at  town"* ]]
	grep -q '^#   who  .*150 values; few rows for each: leave it out' d.env
}

@test "a column of numbers that can't be read is named, with what to do" {
	awk 'BEGIN { print "wert;town;y"; for (i = 0; i < 400; i++) print int(i / 7) "," i % 10 ";town-" i % 5 ";" i % 2 }' >d.csv
	run trainctl init d.csv --label y
	[ "$status" -eq 0 ]
	[[ $output == *"look at  wert: left out; numbers with a comma ('0,0' in line 2): write them with a point and without thousands separators"* ]]
}

@test "a column of percents is named, with what to do" {
	awk 'BEGIN { print "share,few,y"; for (i = 0; i < 400; i++) print i * 7 % 99 "%," i % 4 "%," i % 2 }' >d.csv
	run -0 trainctl init d.csv --label y
	[[ $output == *"look at  share: left out; numbers with a % ('0%' in line 2): write them without it"* ]]
	[[ $output == *"look at  few: 4 values: "*"; numbers with a %, used as categories"* ]]
	[ "$(key SPARSE d.env)" = few ]
}

@test "what reads as missing in a column of words is in MISSING, too" {
	awk 'BEGIN { print "a,y"; for (i = 0; i < 400; i++) print (i % 9 ? "w" i % 5 : "n/a") "," i % 2 }' >d.csv
	run -0 trainctl init d.csv --label y
	[ "$(key MISSING d.env)" = n/a ]
	grep -q '^#   a .*missing (n/a)' d.env
}

@test "rows sorted by the label: the command that shuffles them leaves the names where they are" {
	awk 'BEGIN { print "a,y"; for (i = 0; i < 300; i++) print i % 50 "," (i > 150) }' >"it's.csv"
	run -0 trainctl init "it's.csv" --label y
	grep -A 1 'rows are sorted by the label' <<<"$output" | tail -n 1 >shuffle
	sh -eu shuffle
	[ "$(head -n 1 ./*-shuffled.csv)" = a,y ]
	not cmp -s "it's.csv" ./*-shuffled.csv
	cmp <(sort "it's.csv") <(sort ./*-shuffled.csv)
	grep -q '^#   { cat .* | shuf; } > ' ./*.env
	awk 'BEGIN { for (i = 0; i < 300; i++) print (i > 150) " 1:" i % 50 }' | gzip >s.svm.gz
	run -0 trainctl init s.svm.gz
	[[ $output == *"           zcat s.svm.gz | shuf > s-shuffled.svm"* ]]
}

@test "rows of several lines: the commands that split and shuffle them keep them whole" {
	awk 'BEGIN { print "\"a\nb\",c,y"; for (i = 0; i < 300; i++) print i % 50 ",\"" (i % 3 ? "one\n\"\"two\"\"\n" : "three, four") "\"," (i > 150) }' >d.csv
	run -0 trainctl init d.csv --label y
	grep ' rows() ' <<<"$output" >shuffle
	grep '^  *cat d.csv ' <<<"$output" >split
	sh -eu shuffle
	sh -eu split
	[ "$(rowidx -f csv --count d-test.csv) $(rowidx -f csv --count d-train.csv)" = "30 270" ]
	not cmp -s d.csv d-shuffled.csv
	cmp <(sort d.csv) <(sort d-shuffled.csv)
	tail -n +3 d-test.csv | cmp <(sort d.csv) <(sort - d-train.csv)
	run -0 trainctl init d-train.csv --label y --force
	[[ $output != *"can't be used"* && $output == *"test     d-test.csv, found beside it"* ]]
}

@test "text in Latin-1 trains, is named, and the job file is UTF-8 all the same" {
	awk 'BEGIN { print "pr\351nom,y"; for (i = 0; i < 300; i++) print "caf\351" i % 5 "," i % 2 }' >d.csv
	run -0 trainctl init d.csv --label y
	grep -A 1 'line 1 is not UTF-8' <<<"$output" | tail -n 1 >recode
	iconv -f UTF-8 -t UTF-8 d.env >/dev/null
	[ "$(key SPARSE d.env)" = pr%E9nom ]
	run -0 trainctl check d.env --run-dir "$T/run"
	[[ $output == *" sparse=1 "* ]]
	sh -eu recode
	run -0 trainctl init d-utf8.csv --label y
	[[ $output != *"not UTF-8"* ]]
	run -65 trainctl init d.csv --label $'pr\351nom' --positive $'caf\3511' --force
	[[ $output == *" is not UTF-8, but a job file must be; if it is Latin-1: cat d.csv | iconv -f ISO-8859-1 -t UTF-8 > d-utf8.csv" ]]
}

@test "no column to learn from: each is named with its reason" {
	awk 'BEGIN { print "a,a,b,y"; for (i = 0; i < 50; i++) print i % 9 "," i % 7 ",3," i % 2 }' >d.csv
	run -65 trainctl init d.csv --label y
	[ "$output" = "trainctl: d.csv: no column besides the label is good for training: a: another column has the same name; a: another column has the same name; b: always the same" ]
}

@test "names and rows that are odd" {
	# blanks, commas and quotes in names; two rows that are too short; labels that are missing
	{
		echo '"first, of all","a ""b""",50%,y'
		for i in $(seq 100); do echo "$((i * 7 % 60)).5,v$((i % 5)),$((i * 3 % 41)).25,$((i % 2))"; done
		echo '1,2'
		echo '1.5,v1,2.5,'
	} >odd.csv
	printf 'a,b\n1,2\n' >odd-test.csv
	run trainctl init odd.csv --label y
	[ "$status" -eq 0 ]
	[[ $output == *"BAD_ROWS=skip:4: some rows can't be used; without a label: 1; line 102 is the first, with 2 columns of 4"* ]]
	[[ $output == *"  test     none: odd-test.csv is not taken: has 2 columns, odd.csv has 4"$'\n'* ]]
	[ "$(key DENSE odd.env)" = "first%2C of all,50%25" ] || [ "$(key DENSE odd.env)" = "'first%2C of all,50%25'" ]
	run trainctl run odd.env --run-dir run
	[ "$status" -eq 0 ]
	[[ $output == *"bad-rows=2"* ]]
}

@test "a data file whose name has blanks" {
	people 200 >"my people-train.csv"
	people 50 >"my people-test.csv"
	trainctl init "my people-train.csv" --label bought
	run trainctl run my-people.env --run-dir run
	[ "$status" -eq 0 ]
	[ -n "$(echo "$output" | tail -n 1 | field auc)" ]
}

@test "without a test file: the commands that make one, which are typed as they stand" {
	people 200 >d-train.csv
	cp d-train.csv before
	run -0 trainctl init d-train.csv --label bought
	sed -n "s/^#   \(cat .*\)/\1/p; s/^#   \(trainctl init\)/\1/p" d.env >split
	diff split <(grep -A 3 '  test     none: ' <<<"$output" | sed '1d; s/^ *//')
	[ "$(wc -l <split)" = 3 ]
	sh split
	cmp d-train.csv before
	[ "$(wc -l <d-split-test.csv)" = 21 ]
	[ "$(wc -l <d-split-train.csv)" = 181 ]
	[ "$(key LABEL d-split.env)" = bought ]
	[ "$(key TEST d-split.env)" = d-split-test.csv ]
	cp d-train.csv 'other day.csv'
	run -0 trainctl init d-train.csv 'other day.csv' --label town --positive Lima -o 'my job.env' --set EPOCHS=3 --job mine
	[[ $output == *" trainctl init mine-train.csv 'other day.csv' --label town --positive Lima --output 'my job.env' --job mine --set EPOCHS=3 --force"$'\n'* ]]
}

@test "a file name with quotes and commands: what is suggested runs as it stands, and runs nothing else" {
	people 200 >"it's \$(touch pwned).csv"
	run -0 trainctl init "it's \$(touch pwned).csv" --label bought -o "a \$(touch pwned).env"
	sed -n 's/^  trainctl check/trainctl check/p' <<<"$output" >next
	[ "$(wc -l <next)" = 1 ]
	sh -eu next
	sed -n "s/^#   \(cat .*\)/\1/p; s/^#   \(trainctl init\)/\1/p" a*.env >split
	[ "$(wc -l <split)" = 3 ]
	sh -eu split
	[ ! -e pwned ]
	[ "$(cat ./*-test.csv | wc -l)" = 21 ]
	people 200 | sed 1d >"it's \$(touch pwned).csv"
	run -65 trainctl init "it's \$(touch pwned).csv" --label bought -o b.env
	sed 's/.*before it: //' <<<"$output" >named
	sh -eu named
	[ ! -e pwned ]
	trainctl init named.csv --label c8
}
