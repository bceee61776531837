//! temporary
use lab::config::*;
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let stop: lab::train::Stop = Default::default();
    if a[0] == "resume" { println!("{:?}", lab::train::resume(std::path::Path::new(&a[1]), a.get(2).map(|x| x.parse().unwrap()), stop, false, |e| eprintln!("{e}")).unwrap()); return; }
    let mut o = Overrides::default();
    for s in &a[5..] { o.set(s).unwrap(); }
    let c = Config::resolve(RunConfig::new(&a[0], &a[1], a[2].parse().unwrap(), a[3].parse().unwrap()), &o).unwrap();
    println!("{:?}", lab::train::train(&c, std::path::Path::new(&a[4]), stop, false).unwrap());
}
