package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The linter has this rule too; the test holds where the linter cannot be had.
func TestEveryExportedNameHasADocComment(t *testing.T) {
	for _, p := range list(t, "./...") {
		name, ok := ours(p.ImportPath)
		if !ok || p.Name == "main" || strings.HasPrefix(name, "internal/") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		documented := false
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			documented = documented || tree.Doc != nil
			for _, bare := range undocumented(tree) {
				t.Errorf("%s/%s:%d: %s is exported and has no doc comment",
					name, filepath.Base(file), set.Position(bare.Pos()).Line, bare.Name)
			}
		}
		if !documented {
			t.Errorf("package %s has no doc comment", name)
		}
	}
}

// wellKnown are methods whose name and signature say it all.
var wellKnown = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true, "As": true}

// undocumented returns the exported names of a file without a comment: functions,
// types and their methods, constants and variables. For the last two a
// comment on the group or at the end of the line will do.
func undocumented(file *ast.File) []*ast.Ident {
	var bare []*ast.Ident
	check := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		for _, doc := range docs {
			if doc != nil {
				return
			}
		}
		bare = append(bare, name)
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil || receiver(decl).IsExported() && !wellKnown[decl.Name.Name] {
				check(decl.Name, decl.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						check(name, decl.Doc, spec.Doc, spec.Comment)
					}
				case *ast.TypeSpec:
					doc := spec.Doc
					if !decl.Lparen.IsValid() {
						doc = decl.Doc
					}
					check(spec.Name, doc, spec.Comment)
				}
			}
		}
	}
	return bare
}

// receiver returns the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) *ast.Ident {
	expr := method.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr: // a type with parameters
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		default:
			return ast.NewIdent("_")
		}
	}
}
