package classify

// The checks below take digits by their values, 0 to 9.

// luhn is the check of ISO/IEC 7812: of the digits from the right every second is
// doubled, and the sum of all digits is a multiple of ten.
func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		v := int(d)
		if (len(digits)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// article is the check of GS1 that barcodes of goods end with: the digits count once
// and three times in turn.
func article(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		weight := 1
		if (len(digits)-i)%2 == 0 {
			weight = 3
		}
		sum += weight * int(d)
	}
	return sum%10 == 0
}

// dihedral is the multiplication of the symmetries of a pentagon, on which
// Verhoeff's check rests: 0 to 4 are turns, 5 to 9 are reflections.
var dihedral = func() (t [10][10]byte) { //nolint:gochecknoglobals // an immutable table
	for a := range 10 {
		for b := range 10 {
			switch {
			case a < 5 && b < 5:
				t[a][b] = byte((a + b) % 5)
			case a < 5:
				t[a][b] = byte((a+b)%5 + 5)
			case b < 5:
				t[a][b] = byte((a-b+5)%5 + 5)
			default:
				t[a][b] = byte((a - b + 5) % 5)
			}
		}
	}
	return t
}()

// shuffles are the powers of that check's permutation.
var shuffles = func() (t [8][10]byte) { //nolint:gochecknoglobals // an immutable table
	once := [10]byte{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}
	for i := range 10 {
		t[0][i] = byte(i)
	}
	for k := 1; k < len(t); k++ {
		for i := range 10 {
			t[k][i] = once[t[k-1][i]]
		}
	}
	return t
}()

// aadhaarValid: the first digit of Aadhaar numbers is neither 0 nor 1.
func aadhaarValid(digits []byte) bool { return digits[0] >= 2 && verhoeff(digits) }

// verhoeff is the check that Aadhaar numbers end with.
func verhoeff(digits []byte) bool {
	c := byte(0)
	for i := range digits {
		d := digits[len(digits)-1-i]
		c = dihedral[c][shuffles[i%len(shuffles)][d]]
	}
	return c == 0
}

// cpfValid checks both check digits of a CPF. One digit eleven times passes them,
// and is nobody's.
func cpfValid(digits []byte) bool {
	same := true
	for _, d := range digits[1:] {
		same = same && d == digits[0]
	}
	if same {
		return false
	}
	for _, n := range [...]int{9, 10} {
		sum := 0
		for i, d := range digits[:n] {
			sum += int(d) * (n + 1 - i)
		}
		if sum*10%11%10 != int(digits[n]) {
			return false
		}
	}
	return true
}

// nhsValid checks the last digit of an NHS number.
func nhsValid(digits []byte) bool {
	sum, mixed := 0, false
	for i, d := range digits[:9] {
		sum += int(d) * (10 - i)
		mixed = mixed || d != digits[0]
	}
	check := (11 - sum%11) % 11
	return mixed && check < 10 && check == int(digits[9])
}

// ssnValid reports whether a number may have been given to somebody: area numbers
// 000, 666 and from 900 on are not, nor are group 00 and serial 0000.
func ssnValid(digits []byte) bool {
	area := int(digits[0])*100 + int(digits[1])*10 + int(digits[2])
	group := digits[3] + digits[4]
	serial := digits[5] + digits[6] + digits[7] + digits[8]
	return area != 0 && area != 666 && area < 900 && group != 0 && serial != 0
}

// residentID checks a resident identity number of China (GB 11643): province, date
// of birth, and the check character, X being 10.
func residentID(d []byte, check int) bool {
	switch province := int(d[0])*10 + int(d[1]); province {
	case 11, 12, 13, 14, 15, 21, 22, 23, 31, 32, 33, 34, 35, 36, 37, 41, 42, 43, 44, 45, 46, 50, 51, 52, 53, 54,
		61, 62, 63, 64, 65, 71, 81, 82, 83:
	default:
		return false
	}
	year := int(d[6])*1000 + int(d[7])*100 + int(d[8])*10 + int(d[9])
	month, day := int(d[10])*10+int(d[11]), int(d[12])*10+int(d[13])
	if year < 1900 || year >= 2100 || !isDate(year, month, day) {
		return false
	}
	sum, weight := 0, 1 // the weights are the powers of 2 modulo 11, from the right
	for i := range d {
		weight = weight * 2 % 11
		sum += int(d[len(d)-1-i]) * weight
	}
	return (sum+check)%11 == 1
}

func isDate(year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	last := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		last++
	}
	return day <= last
}
