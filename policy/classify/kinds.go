package classify

// The kinds of personal data that a [Scanner] finds, in the tag [TagPII].
const (
	KindCard    Kind = "card"    // payment card: issuer range, length, Luhn
	KindIBAN    Kind = "iban"    // country, its length, mod 97
	KindSSN     Kind = "us-ssn"  // US social security number: area, group, serial
	KindCNID    Kind = "cn-id"   // resident identity number of China: region, date, check character
	KindAadhaar Kind = "aadhaar" // India: Verhoeff
	KindCPF     Kind = "cpf"     // Brazil: two check digits
	KindNHS     Kind = "nhs"     // NHS number of England: mod 11
	KindEmail   Kind = "email"   // e-mail address
	KindPhone   Kind = "phone"   // telephone number, by its form or with a word that says so
)

// The kinds of secrets that a [Scanner] finds, in the tag [TagSecrets].
const (
	KindAWSKey      Kind = "aws-key"       // access key id, or secret access key beside its name
	KindGitHub      Kind = "github-token"  // any of GitHub's token forms
	KindGitLab      Kind = "gitlab-token"  // personal access token
	KindJWT         Kind = "jwt"           // JSON web token whose header names an algorithm
	KindPrivateKey  Kind = "private-key"   // PEM or PGP private key
	KindSlack       Kind = "slack-token"   // Slack token
	KindGoogle      Kind = "google-key"    // Google API key, OAuth token or client secret
	KindOpenAI      Kind = "openai-key"    // key of OpenAI, or of one who writes keys the same way
	KindAnthropic   Kind = "anthropic-key" // Anthropic key
	KindStripe      Kind = "stripe-key"    // Stripe secret or restricted key, webhook secret
	KindHuggingFace Kind = "hf-token"      // Hugging Face token
	KindPackages    Kind = "package-token" // token of npm or PyPI
	KindSendGrid    Kind = "sendgrid-key"  // SendGrid key
	KindURLPassword Kind = "url-password"  // a URL with user and password
)

// kind is a Kind's index.
type kind uint8

const (
	card kind = iota
	iban
	ssn
	cnID
	aadhaar
	cpf
	nhs
	email
	phone
	awsKey
	gitHub
	gitLab
	jwt
	privateKey
	slack
	google
	openAI
	anthropic
	stripe
	huggingFace
	packages
	sendGrid
	urlPassword
	numKinds

	firstSecret = awsKey
)

// name is the Kind of an index.
func (k kind) name() Kind {
	return [numKinds]Kind{
		KindCard, KindIBAN, KindSSN, KindCNID, KindAadhaar, KindCPF, KindNHS, KindEmail, KindPhone,
		KindAWSKey, KindGitHub, KindGitLab, KindJWT, KindPrivateKey, KindSlack, KindGoogle, KindOpenAI, KindAnthropic, KindStripe,
		KindHuggingFace, KindPackages, KindSendGrid, KindURLPassword,
	}[k]
}

// Kinds lists what a [Scanner] can find, personal data first.
func Kinds() []Kind {
	all := make([]Kind, numKinds)
	for k := range numKinds {
		all[k] = k.name()
	}
	return all
}
